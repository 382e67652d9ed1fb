// The denoising viewer: one answer over its steps, played, scrubbed, coloured; by mouse, finger or keys.

const HELP = "← → one step · Shift ten · Home End · Space plays · G next chosen step · C colour · N P answer · [ ] token";

class Viewer {
  constructor(place, traces, options = {}) {
    this.options = options;
    this.colouring = "reveal";
    this.selected = null;
    this.picker = el("select", { "aria-label": "answer", class: "answers", on: { change: () => this.open(Number(this.picker.value)) } });
    this.colour = el("select", { "aria-label": "colour by", on: { change: () => { this.colouring = this.colour.value; this.paint(); } } },
      ...Object.entries(COLOURINGS).map(([value, { title }]) => el("option", { value }, title)));
    this.speed = el("select", { "aria-label": "speed" }, ...[["0.5", "half speed"], ["1", "normal speed"], ["3", "fast"]].map(
      ([value, title]) => el("option", { value, selected: value === "1" }, title)));
    const button = (label, title, call) => el("button", { type: "button", title, "aria-label": title, on: { click: call } }, label);
    this.playButton = button("▶", "play", () => this.toggle());
    this.slider = el("input", { type: "range", min: 0, step: 1, class: "scrub", "aria-label": "denoising step", on: { input: () => { this.stop(); this.go(Number(this.slider.value)); } } });
    this.where = el("output", { class: "where", role: "status" });
    this.strip = el("div", { class: "strip" });
    this.board = el("div", { class: "board" });
    this.side = el("div", { class: "side" });
    this.scale = el("div", { class: "scale" });
    this.token = el("p", { class: "token", role: "status" });
    this.chosen = el("div", { class: "chosen" });
    this.prompt = el("pre", { class: "prompt", tabindex: 0, "aria-label": "prompt" });
    this.node = el("div", { class: "viewer", tabindex: 0, role: "group", "aria-label": `denoising viewer. ${HELP}` },
      el("div", { class: "bar" },
        el("span", { class: "pick" }, button("‹", "previous answer", () => this.next(-1)), this.picker, button("›", "next answer", () => this.next(1))),
        el("label", {}, "colour ", this.colour), this.speed),
      el("details", { class: "asked" }, el("summary", {}, "prompt"), this.prompt),
      el("div", { class: "transport" }, button("|‹", "to the start", () => this.go(0)), button("‹", "one step back", () => this.go(this.p - 1)),
        this.playButton, button("›", "one step on", () => this.go(this.p + 1)), button("›|", "to the end", () => this.go(this.states.steps)), this.where),
      this.strip, this.slider,
      el("div", { class: "stage" }, el("div", { class: "left" }, this.board, this.scale, this.token), this.side),
      this.chosen, el("p", { class: "help" }, HELP));
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.board.addEventListener("click", (event) => this.pick(event.target));
    this.board.addEventListener("pointerover", (event) => this.pick(event.target));
    place.replaceChildren(this.node);
    this.update(traces);
  }

  // Other answers, as they come in while a run goes on; the one in view stays.
  update(traces) {
    const before = this.traces && this.traces[this.number];
    this.traces = traces;
    this.picker.replaceChildren(...traces.map((trace, i) => el("option", { value: i }, titleOf(trace, this.options))));
    const same = before ? traces.findIndex((t) => ["run", "round", "sample"].every((key) => t[key] === before[key])) : -1;
    if (same >= 0) { this.number = same; this.picker.value = same; return; }
    const newest = traces.reduce((most, trace) => Math.max(most, trace.round || 0), 0);
    if (traces.length) this.open(this.options.last ? traces.findIndex((trace) => (trace.round || 0) === newest) : 0);
  }

  next(by) {
    this.open((this.number + by + this.traces.length) % this.traces.length);
  }

  open(index) {
    this.stop();
    this.number = index;
    this.picker.value = index;
    const trace = this.traces[index];
    this.states = new States(trace);
    this.cells = trace.task === "sudoku" ? cellSlots(this.states.tokens) : null;
    this.clues = this.cells ? digitsIn(trace.prompt || "") : null;
    this.selected = null;
    this.prompt.textContent = trace.prompt || "";
    this.slider.max = this.states.steps;
    this.slider.disabled = !this.states.denoised;
    this.build();
    this.drawStrip();
    this.chosenTable();
    this.go(this.options.start === "end" ? this.states.steps : 0);
  }

  build() {
    this.spans = this.states.tokens.map((token, slot) => el("span", { class: "slot", "data-slot": slot }));
    this.text = el("div", { class: "tokens", "aria-label": "answer" }, ...this.spans);
    this.board.replaceChildren(this.text);
    if (this.cells) this.text.classList.add("beside");
  }

  go(p) {
    this.p = Math.min(Math.max(p, 0), this.states.steps);
    this.slider.value = this.p;
    const end = this.p === this.states.steps;
    this.slider.setAttribute("aria-valuetext", end ? "the end" : `before step ${this.p} of ${this.states.steps}`);
    this.where.textContent = !this.states.denoised ? "not denoised here" : end ? `end, ${this.states.steps} steps done` : `before step ${this.p} of ${this.states.steps}`;
    this.paint();
    this.describe();
    if (this.cursor) {
      this.cursor.setAttribute("x1", this.p);
      this.cursor.setAttribute("x2", this.p);
    }
  }

  paint() {
    const shown = this.states.before(this.p);
    const { of, ends, title } = COLOURINGS[this.colouring];
    const next = new Set(this.states.committed[this.p] || []);
    const fresh = new Set(this.p > 0 ? this.states.committed[this.p - 1] : []);
    this.looks = this.spans.map((span, slot) => {
      const hidden = shown[slot] === null;
      const share = hidden ? null : of(this.states, slot);
      const colour = finite(share) && this.states.reveal[slot] >= 0 ? ramp(share) : null;
      const classes = ["slot"];
      if (hidden) classes.push("hidden");
      if (next.has(slot)) classes.push("next");
      if (fresh.has(slot)) classes.push("fresh");
      if (slot === this.selected) classes.push("picked");
      const text = hidden ? this.states.tokens[slot] : shown[slot];
      if (/^<\|?[^<>]*\|?>$/.test(text)) classes.push("special");
      const name = classes.join(" ");
      if (span.className !== name) span.className = name;
      const written = text.replace(/\n/g, "↵\n");
      if (span.textContent !== written) span.textContent = written;
      span.style.background = colour ? colour.back : "";
      span.style.color = colour ? colour.ink : "";
      return { colour, hidden, classes };
    });
    if (this.cells) this.paintGrid(shown);
    const [low, high] = ends(this.states);
    this.scale.replaceChildren(...(this.colouring === "none" ? [] : [el("span", {}, `${title}: ${low}`), el("i", { style: { background: rampGradient() } }), el("span", {}, high)]));
    this.tell();
  }

  paintGrid(shown) {
    const digits = this.cells.map(({ slot, digit }) => (shown[slot] === null ? null : digit));
    const table = gridTable(digits, this.clues, "answer", (i) => {
      const { colour, hidden, classes } = this.looks[this.cells[i].slot];
      return { class: classes.join(" "), style: colour && !hidden ? { background: colour.back, color: colour.ink } : {} };
    });
    table.querySelectorAll("td").forEach((cell, i) => { cell.dataset.slot = this.cells[i].slot; });
    this.board.replaceChildren(table, this.text);
  }

  describe() {
    const { trace, committed, chosen, entropy, steps } = this.states;
    const facts = [["final reward", number(trace.reward)]];
    for (const [name, value] of Object.entries(trace.components || {})) facts.push([`· ${name}`, typeof value === "number" ? number(value) : value]);
    const parts = [];
    if (this.p < steps) {
      facts.push(["this step writes", `${committed[this.p].length} tokens`], ["their entropy", entropy[this.p] === null ? "–" : `${number(entropy[this.p])} nats`]);
      const block = (trace.block_entropy || [])[this.p];
      if (finite(block)) facts.push(["entropy of the block", `${number(block)} nats`]);
      for (const k of chosen[this.p]) {
        facts.push(["chosen", `rank ${k + 1} of ${trace.steps.length}, weight ${number(trace.steps[k].weight)}`]);
        if (this.states.guessReward(k) !== null) facts.push(["reward of the guess", number(this.states.guessReward(k))], ["gain over the guess", signed(this.states.gain(k))]);
        if (this.states.advantage(k) !== null) facts.push(["advantage", signed(this.states.advantage(k))]);
        for (const guess of (trace.steps[k].guesses || []).slice(0, 4)) parts.push(this.guess(guess, trace));
      }
      const before = (trace.guesses || [])[this.p];
      if (before && !parts.length) {
        if (finite(before.reward) && finite(trace.reward)) facts.push(["reward of the guess", number(before.reward)], ["gain over the guess", signed(trace.reward - before.reward)]);
        parts.push(this.guess(before, trace));
      }
      if ((trace.steps || []).length && !chosen[this.p].length) facts.push(["chosen", "no"]);
    } else if (!(trace.steps || []).length && this.states.advantage(0) !== null) facts.push(["advantage", signed(this.states.advantage(0))]);
    this.side.replaceChildren(el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])), ...parts);
  }

  guess(guess, trace) {
    const caption = `one-shot guess, reward ${number(guess.reward)}`;
    const digits = this.cells ? digitsIn(guess.text) : null;
    if (digits && digits.length === this.cells.length) {
      return gridTable([...digits], this.clues, caption, (i) => ({ class: digits[i] === this.cells[i].digit ? "same" : "other" }));
    }
    return el("figure", { class: "guess" }, el("figcaption", {}, caption + (guess.text === trace.answer ? ", as the answer" : "")), el("pre", { tabindex: 0 }, guess.text));
  }

  drawStrip() {
    const { steps, entropy, chosen } = this.states;
    if (!steps) { this.strip.replaceChildren(); return; }
    const most = Math.max(...entropy.filter(finite), 1e-9);
    const root = svg("svg", { viewBox: `0 0 ${steps} 40`, preserveAspectRatio: "none", "aria-hidden": "true" });
    entropy.forEach((value, s) => {
      const high = finite(value) ? Math.max((28 * value) / most, 0.6) : 0;
      root.append(svg("rect", { class: chosen[s].length ? "bar-chosen" : "bar-step", x: s + 0.08, width: 0.84, y: 30 - high, height: high }));
      if (chosen[s].length) {
        const credit = this.states.advantage(chosen[s][0]);
        root.append(svg("rect", { class: `mark ${credit > 0 ? "plus" : credit < 0 ? "minus" : ""}`, x: s + 0.08, width: 0.84, y: 33, height: 6 }));
      }
    });
    this.cursor = svg("line", { class: "cursor", y1: 0, y2: 40 });
    root.append(this.cursor);
    root.addEventListener("click", (event) => {
      const box = root.getBoundingClientRect();
      this.stop();
      this.go(Math.floor((steps * (event.clientX - box.left)) / box.width));
    });
    this.strip.replaceChildren(root);
  }

  chosenTable() {
    const steps = (this.states.trace.steps || []).map((step, k) => ({ ...step, k })).filter((step) => step.weight !== 0);
    if (!steps.length) { this.chosen.replaceChildren(); return; }
    const rows = steps.sort((a, b) => a.start - b.start).map(({ start, stop, weight, k }) => el("tr", {},
      el("td", {}, el("button", { type: "button", on: { click: () => { this.stop(); this.go(start); } } }, stop - start > 1 ? `${start} to ${stop - 1}` : `${start}`)),
      el("td", {}, `${k + 1}`), el("td", {}, number(weight)), el("td", {}, number(this.states.entropy[start])),
      el("td", {}, number(this.states.guessReward(k))), el("td", {}, signed(this.states.gain(k))), el("td", {}, signed(this.states.advantage(k)))));
    const heads = ["step", "rank", "weight", "entropy, nats", "reward of guess", "gain", "advantage"];
    this.chosen.replaceChildren(el("table", {}, el("caption", {}, "chosen steps"),
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows)));
  }

  pick(target) {
    const slot = target && target.dataset && target.dataset.slot;
    if (slot !== undefined && Number(slot) !== this.selected) this.select(Number(slot));
  }

  select(slot) {
    const old = this.selected;
    this.selected = Math.min(Math.max(slot, 0), this.spans.length - 1);
    for (const [index, on] of [[old, false], [this.selected, true]]) {
      if (index !== null && this.spans[index]) this.spans[index].classList.toggle("picked", on);
      for (const cell of this.board.querySelectorAll(`td[data-slot="${index}"]`)) cell.classList.toggle("picked", on);
    }
    this.tell();
  }

  tell() {
    if (this.selected === null) { this.token.textContent = ""; return; }
    const slot = this.selected;
    const { trace, reveal, tokens } = this.states;
    const value = (name) => number((trace[name] || [])[slot], 3);
    const at = reveal[slot] < 0 ? "never committed" : `written by step ${reveal[slot]}`;
    this.token.textContent = `slot ${slot} ${JSON.stringify(tokens[slot])}: ${at}, confidence ${value("confidence")}, entropy ${value("entropy")} nats, log-prob ${value("logprob")} nats`;
  }

  toggle() {
    if (this.timer) { this.stop(); return; }
    if (this.p >= this.states.steps) this.go(0);
    const pause = Math.max(5000 / Math.max(this.states.steps, 1), 30) / Number(this.speed.value);
    this.playButton.textContent = "❚❚";
    this.playButton.setAttribute("aria-label", "pause");
    this.timer = setInterval(() => {
      this.go(this.p + 1);
      if (this.p >= this.states.steps) this.stop();
    }, Math.min(pause, 700));
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.playButton.textContent = "▶";
    this.playButton.setAttribute("aria-label", "play");
  }

  key(event) {
    const kind = event.target.tagName;
    if (event.ctrlKey || event.metaKey || event.altKey || kind === "SELECT" || kind === "PRE") return;
    if ((kind === "BUTTON" || kind === "SUMMARY") && event.key === " ") return;
    const far = event.shiftKey ? 10 : 1;
    const chosen = this.states.chosen.findIndex((list, s) => s > this.p && list.length);
    const first = this.states.chosen.findIndex((list) => list.length);
    const names = Object.keys(COLOURINGS);
    const calls = {
      ArrowRight: () => { this.stop(); this.go(this.p + far); }, ArrowLeft: () => { this.stop(); this.go(this.p - far); },
      Home: () => this.go(0), End: () => this.go(this.states.steps), " ": () => this.toggle(),
      g: () => this.go(chosen >= 0 ? chosen : Math.max(first, 0)),
      c: () => { this.colouring = this.colour.value = names[(names.indexOf(this.colouring) + 1) % names.length]; this.paint(); },
      n: () => this.next(1), p: () => this.next(-1),
      "]": () => this.select(this.selected === null ? 0 : this.selected + 1), "[": () => this.select(this.selected === null ? 0 : this.selected - 1),
    };
    const call = calls[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (call) { event.preventDefault(); call(); }
  }
}

function titleOf(trace, options) {
  const parts = [];
  if (options.runs > 1 && trace.run) parts.push(trace.run);
  if (trace.round !== undefined) parts.push(`round ${trace.round}`);
  parts.push(trace.group === undefined ? `answer ${(trace.sample || 0) + 1}` : `prompt ${trace.group}, answer ${trace.sample}`);
  if (finite(trace.reward)) parts.push(`reward ${number(trace.reward, 3)}`);
  return parts.join(" · ");
}
