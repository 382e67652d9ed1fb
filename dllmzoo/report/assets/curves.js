// The learning curves: one chart for each entry of the data, all runs overlaid, switched on and off.

const AXES = [
  ["round", "round", ["round"]],
  ["update", "optimiser updates", ["update"]],
  ["flops", "training FLOPs", ["_flops"]],
  ["time", "seconds", ["time/elapsed"]],
];

class Curves {
  constructor(place, data) {
    this.place = place;
    this.axis = "round";
    this.smooth = 0;
    this.hidden = new Set();
    this.charts = new Map();
    this.groups = new Map();
    this.bar = el("div", { class: "bar", role: "group", "aria-label": "runs and axes" });
    this.body = el("div", {});
    place.replaceChildren(this.bar, this.body);
    this.update(data);
  }

  update(data) {
    this.data = data;
    const focus = document.activeElement && document.activeElement.id;
    this.bar.replaceChildren(...this.controls());
    if (focus && byId(focus)) byId(focus).focus();
    for (const group of data.charts) {
      if (!this.groups.has(group.title)) {
        const grid = el("div", { class: "charts" });
        const still = el("p", { class: "note" });
        const node = el("details", { open: group.shown, class: "group" }, el("summary", {}, group.title), grid, still);
        node.addEventListener("toggle", () => this.draw());
        this.groups.set(group.title, { node, grid, still });
        this.body.append(node);
      }
    }
    this.draw();
  }

  controls() {
    const runs = this.data.runs.map((run, i) => {
      const box = el("input", {
        type: "checkbox", id: `run-${i}`, checked: !this.hidden.has(run.name),
        on: { change: (event) => this.toggle(run.name, event.target.checked) },
      });
      return el("label", { class: "run", for: `run-${i}` }, box, el("i", { class: "swatch", style: { background: lineColour(i) } }), run.name);
    });
    const axis = el("select", { id: "axis", on: { change: (e) => { this.axis = e.target.value; this.draw(); } } },
      ...AXES.map(([value, title]) => el("option", { value, selected: value === this.axis }, title)));
    const smooth = el("input", {
      id: "smooth", type: "range", min: 0, max: 0.95, step: 0.05, value: this.smooth,
      on: { input: (e) => { this.smooth = Number(e.target.value); this.draw(); } },
    });
    return [el("div", { class: "runs" }, ...runs), el("label", {}, "against ", axis), el("label", {}, "smooth ", smooth)];
  }

  toggle(name, shown) {
    if (shown) this.hidden.delete(name);
    else this.hidden.add(name);
    this.draw();
  }

  across(run) {
    const [, , keys] = AXES.find(([value]) => value === this.axis);
    const column = run.columns[keys[0]] || [];
    return (run.columns.round || []).map((round, i) => (finite(column[i]) ? column[i] : round === 0 ? 0 : null));
  }

  lines(entry) {
    const many = this.data.runs.length > 1;
    const made = [];
    this.data.runs.forEach((run, r) => {
      if (this.hidden.has(run.name)) return;
      entry.lines.forEach((line, k) => {
        const y = run.columns[line.key];
        if (!y) return;
        const label = entry.lines.length === 1 ? run.name : many ? `${run.name} ${line.label}` : line.label;
        made.push({
          label, x: this.across(run), y, low: run.columns[line.low], high: run.columns[line.high],
          colour: lineColour(many ? r : k), dash: DASHES[k % DASHES.length],
        });
      });
    });
    return made;
  }

  // The value of a chart that never moves, in any run; null where it does, or may yet.
  onlyValue(entry) {
    const columns = entry.lines.flatMap((line) => this.data.runs.map((run) => run.columns[line.key] || []));
    const values = columns.flat().filter(finite);
    return values.length > 2 && values.every((value) => value === values[0]) ? values[0] : null;
  }

  draw() {
    const xTitle = AXES.find(([value]) => value === this.axis)[1];
    for (const group of this.data.charts) {
      const { node, grid, still } = this.groups.get(group.title);
      if (!node.open) continue;
      const constant = [];
      for (const entry of group.charts) {
        const spec = { ...entry, lines: this.lines(entry), xTitle, smooth: this.smooth };
        const name = `${group.title}/${entry.title}`;
        const only = this.onlyValue(entry);
        if (only !== null) constant.push(`${entry.title} ${number(only)}`);
        if (this.charts.has(name)) this.charts.get(name).set(spec);
        else {
          this.charts.set(name, new Chart(spec));
          grid.append(this.charts.get(name).node);
        }
        this.charts.get(name).node.hidden = only !== null;
      }
      still.textContent = constant.length ? `The same in every round: ${constant.join(", ")}.` : "";
    }
  }
}

// Entropy at commit and chosen steps, by denoising step: one chart a run, a line a round.
function stepCharts(place, data) {
  const made = [];
  for (const run of data.runs) {
    const rows = (run.by_step || []).filter((row) => row.entropy.length);
    if (!rows.length) continue;
    const lines = (key) => rows.filter((row) => row[key].length).map((row, i) => ({
      label: `round ${row.round}`, x: row[key].map((_, s) => s), y: row[key],
      colour: ramp(rows.length > 1 ? (0.9 * i) / (rows.length - 1) : 0.3).back,
    }));
    const name = data.runs.length > 1 ? `: ${run.name}` : "";
    made.push(new Chart({ title: `entropy by step${name}`, unit: "nats", meaning: "mean over the tokens a step commits", xTitle: "denoising step", lines: lines("entropy") }).node);
    if (rows.some((row) => row.chosen.length)) {
      made.push(new Chart({ title: `chosen steps${name}`, unit: "share", meaning: "answers in which the step was trained", xTitle: "denoising step", lines: lines("chosen") }).node);
    }
  }
  place.replaceChildren(...made);
  return made.length;
}

// The charts of a lab's result.
function labCharts(data) {
  for (const place of document.querySelectorAll("[data-lab]")) {
    const entries = data.labs[Number(place.dataset.lab)].charts;
    place.replaceChildren(...entries.map((entry) => new Chart({
      ...entry, lines: entry.lines.map((line, i) => ({ ...line, colour: lineColour(i), dash: DASHES[Math.floor(i / 8) % 6] })),
    }).node));
  }
}
