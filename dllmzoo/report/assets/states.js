// What an answer looked like before each denoising step, from the record of one answer.

class States {
  constructor(trace) {
    this.trace = trace;
    this.reveal = trace.reveal || [];
    this.tokens = tokensOf(trace);
    const last = this.reveal.reduce((most, step) => Math.max(most, step), -1);
    const stops = (trace.steps || []).map((step) => step.stop);
    const writes = trace.writes ? trace.writes.length : 0;
    this.steps = Math.max(trace.num_steps || 0, last + 1, writes, ...stops, 0);
    this.denoised = last >= 0 || writes > 0;
    this.committed = Array.from({ length: this.steps }, () => []);
    this.reveal.forEach((step, slot) => { if (step >= 0) this.committed[step].push(slot); });
    const chosen = trace.steps || [];
    this.chosen = Array.from({ length: this.steps }, () => []);
    chosen.forEach((step, k) => {
      if (step.weight === 0) return;
      for (let s = step.start; s < step.stop; s++) if (this.chosen[s]) this.chosen[s].push(k);
    });
    this.entropy = this.committed.map((slots, s) => {
      const values = slots.map((slot) => (trace.entropy || [])[slot]).filter(finite);
      return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
    });
  }

  // Texts before step p (p = number of steps: the end): null where a slot is masked.
  before(p) {
    if (!this.denoised) return this.tokens;
    const writes = this.trace.writes;
    if (!writes) return this.tokens.map((token, slot) => (this.reveal[slot] >= 0 && this.reveal[slot] < p ? token : null));
    const shown = this.tokens.map((token, slot) => (this.reveal[slot] === -1 && !this.everWritten().has(slot) ? token : null));
    for (let s = 0; s < p && s < writes.length; s++) for (const [slot, text] of writes[s]) shown[slot] = text;
    return shown;
  }

  // Slots that some step writes; the others were given.
  everWritten() {
    if (!this.touched) this.touched = new Set(this.trace.writes.flat().map(([slot]) => slot));
    return this.touched;
  }

  advantage(k) {
    const found = this.trace.advantage;
    if (!Array.isArray(found) || !found.length) return null;
    return found.length > 1 ? found[k] : found[0];
  }

  // Reward of the guess before the k-th chosen step: mean over its guesses.
  guessReward(k) {
    const step = (this.trace.steps || [])[k];
    const known = ((step && step.guesses) || []).map((guess) => guess.reward).filter(finite);
    return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
  }

  gain(k) {
    const guess = this.guessReward(k);
    return guess === null || !finite(this.trace.reward) ? null : this.trace.reward - guess;
  }
}

// The text of each slot; records without `tokens` have them only where a slot is a character.
function tokensOf(trace) {
  const slots = (trace.reveal || []).length;
  if (trace.tokens) return trace.tokens;
  const letters = [...(trace.answer || "")];
  if (letters.length === slots) return letters;
  return Array.from({ length: slots }, () => "▪");
}

// Share in [0, 1] by which a slot is coloured, and what the two ends of the ramp mean.
const COLOURINGS = {
  reveal: { title: "reveal step", of: (states, slot) => states.reveal[slot] / Math.max(states.steps - 1, 1), ends: (states) => ["first step", `step ${states.steps - 1}`] },
  confidence: { title: "confidence", of: (states, slot) => (states.trace.confidence || [])[slot], ends: () => ["0", "1"] },
  entropy: {
    title: "entropy",
    of: (states, slot) => ((states.trace.entropy || [])[slot]) / topEntropy(states),
    ends: (states) => ["0", `${number(topEntropy(states), 3)} nats`],
  },
  none: { title: "no colour", of: () => null, ends: () => ["", ""] },
};

function topEntropy(states) {
  const known = (states.trace.entropy || []).filter(finite);
  return known.reduce((most, value) => Math.max(most, value), 0) || 1;
}
