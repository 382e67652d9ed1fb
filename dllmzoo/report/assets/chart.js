// A line chart in SVG: several lines, bands of intervals, values under the pointer or the arrow keys.

const HEIGHT = 210;
const MARGIN = { left: 54, right: 14, top: 10, bottom: 34 };
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "1 5", "12 4"];

function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const made = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) made.push(k * step);
  return made.map((value) => Number(value.toPrecision(12)));
}

function logTicks(low, high) {
  const made = [];
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const thin = Math.ceil((last - first) / 6);
  for (let k = first; k <= last; k += thin) made.push(10 ** k);
  const inside = made.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  return inside.length >= 2 ? inside : ticks(low, high, 4).filter((v) => v > 0);
}

function smoothed(values, weight) {
  let mean = 0;
  let mass = 0;
  return values.map((value) => {
    if (!finite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return mean / mass;
  });
}

class Chart {
  // spec: title, meaning, unit, log, xTitle, xLog, smooth, lines of {label, colour, dash, x, y, low, high}
  constructor(spec) {
    this.log = Boolean(spec.log);
    this.place = el("div", { class: "plot" });
    this.tip = el("div", { class: "tip", role: "status", hidden: true });
    this.heading = el("h4", {}, "");
    this.meaning = el("p", { class: "meaning" }, "");
    this.scale = el("button", { class: "small", on: { click: () => this.flip() } }, "");
    this.saves = saveButtons(this);
    this.legend = el("p", { class: "keys" });
    this.node = el("figure", { class: "chart" },
      el("div", { class: "chart-head" }, this.heading, this.scale, this.saves.node), this.meaning, this.place, this.tip, this.legend);
    this.set(spec);
    if (window.ResizeObserver) {
      let width = 0;
      new ResizeObserver(() => {
        if (this.place.clientWidth !== width) { width = this.place.clientWidth; this.draw(); }
      }).observe(this.place);
    }
  }

  set(spec) {
    this.spec = spec;
    this.heading.textContent = spec.title;
    this.meaning.textContent = [spec.meaning, spec.unit].filter(Boolean).join(" · ");
    this.draw();
  }

  flip() {
    this.log = !this.log;
    this.draw();
  }

  points() {
    return this.spec.lines.map((line) => {
      const drawn = this.spec.smooth > 0 && !line.low ? smoothed(line.y, this.spec.smooth) : line.y;
      const found = [];
      line.x.forEach((x, i) => {
        const y = drawn[i];
        if (!finite(x) || !finite(y) || (this.log && y <= 0) || (this.spec.xLog && x <= 0)) return;
        const ends = line.low ? [line.low[i], line.high[i]] : [null, null];
        found.push({ x, y, raw: line.y[i], low: ends[0], high: ends[1] });
      });
      return found;
    });
  }

  draw() {
    const width = Math.max(this.place.clientWidth || 460, 220);
    this.scale.textContent = this.log ? "log" : "linear";
    this.scale.setAttribute("aria-label", `vertical axis of ${this.spec.title}: ${this.log ? "logarithmic" : "linear"}; switch`);
    const lines = this.points();
    this.drawn = lines;
    const all = lines.flat();
    this.legendOf(lines);
    this.saves.name(this.spec.title, all.length > 0);
    if (!all.length) {
      this.place.replaceChildren(el("p", { class: "empty" }, this.log ? "no value above 0" : "no values"));
      this.xs = [];
      return;
    }
    const value = (v) => (finite(v) && (!this.log || v > 0) ? [v] : []);
    const ys = all.flatMap((p) => [p.y, ...value(p.low), ...value(p.high)]);
    let [low, high] = [Math.min(...ys), Math.max(...ys)];
    if (low === high) [low, high] = this.log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
    const xsAll = all.map((p) => p.x);
    let [left, right] = [Math.min(...xsAll), Math.max(...xsAll)];
    if (left === right) [left, right] = [left - 0.5, right + 0.5];
    const w = width - MARGIN.left - MARGIN.right;
    const h = HEIGHT - MARGIN.top - MARGIN.bottom;
    const place = (v, from, to, log) => (log ? Math.log(v / from) / Math.log(to / from) : (v - from) / (to - from));
    const X = (x) => MARGIN.left + w * place(x, left, right, this.spec.xLog);
    const Y = (y) => MARGIN.top + h * (1 - place(y, low, high, this.log));
    this.X = X;
    this.Y = Y;
    this.xs = [...new Set(xsAll)].sort((a, b) => a - b);
    const root = svg("svg", {
      viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, tabindex: 0, role: "img", "aria-label": this.summary(lines),
    });
    for (const y of this.log ? logTicks(low, high) : ticks(low, high, 4)) {
      root.append(svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: Y(y), y2: Y(y) }),
        svg("text", { class: "tick", x: MARGIN.left - 6, y: Y(y) + 4, "text-anchor": "end" }, number(y, 5)));
    }
    const across = this.spec.xLog ? logTicks(left, right) : ticks(left, right, Math.max(2, Math.min(6, Math.floor(width / 90))));
    for (const x of across) {
      root.append(svg("text", { class: "tick", x: X(x), y: HEIGHT - MARGIN.bottom + 14, "text-anchor": "middle" }, number(x, 5)));
    }
    root.append(svg("text", { class: "tick", x: width - MARGIN.right, y: HEIGHT - 4, "text-anchor": "end" }, this.spec.xTitle || "round"));
    lines.forEach((points, i) => this.line(root, points, this.spec.lines[i], X, Y));
    this.cursor = svg("line", { class: "cursor", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, visibility: "hidden" });
    root.append(this.cursor);
    root.addEventListener("pointermove", (event) => this.under(event, root));
    root.addEventListener("pointerleave", () => this.hide());
    root.addEventListener("blur", () => this.hide());
    root.addEventListener("keydown", (event) => this.key(event));
    this.place.replaceChildren(root);
    this.hide();
  }

  line(root, points, style, X, Y) {
    if (!points.length) return;
    const path = (values) => values.map((p, i) => `${i ? "L" : "M"}${X(p.x).toFixed(1)} ${Y(p.y).toFixed(1)}`).join("");
    const banded = points.filter((p) => finite(p.low) && finite(p.high) && (!this.log || p.low > 0));
    if (banded.length > 1) {
      const there = banded.map((p) => `${X(p.x).toFixed(1)} ${Y(p.high).toFixed(1)}`);
      const back = banded.map((p) => `${X(p.x).toFixed(1)} ${Y(p.low).toFixed(1)}`).reverse();
      root.append(svg("path", { class: "band", d: `M${[...there, ...back].join("L")}Z`, style: { fill: style.colour } }));
    }
    if (this.spec.smooth > 0 && !style.low) {
      const raw = points.map((p) => ({ x: p.x, y: p.raw })).filter((p) => !this.log || p.y > 0);
      root.append(svg("path", { class: "raw", d: path(raw), style: { stroke: style.colour } }));
    }
    if (points.length > 1 && !style.dots) {
      root.append(svg("path", { class: "line", d: path(points), "stroke-dasharray": style.dash || null, style: { stroke: style.colour } }));
    }
    if (points.length <= 24 || style.dots) {
      for (const p of points) root.append(svg("circle", { class: "dot", cx: X(p.x), cy: Y(p.y), r: 2.6, style: { fill: style.colour } }));
    }
  }

  summary(lines) {
    const said = lines.map((points, i) => {
      const label = this.spec.lines[i].label;
      if (!points.length) return `${label}: no values`;
      const ys = points.map((p) => p.y);
      return `${label}: from ${number(ys[0])} to ${number(ys[ys.length - 1])}, lowest ${number(Math.min(...ys))}, highest ${number(Math.max(...ys))}`;
    });
    return `${this.spec.title}. ${said.join(". ")}. Arrow keys read values.`;
  }

  legendOf(lines) {
    const shown = this.spec.lines.filter((_, i) => lines[i].length);
    const items = shown.map((line) => el("span", {},
      svg("svg", { width: 22, height: 8, "aria-hidden": "true" },
        svg("line", { x1: 0, x2: 22, y1: 4, y2: 4, class: "line", "stroke-dasharray": line.dash || null, style: { stroke: line.colour } })),
      line.label));
    this.legend.replaceChildren(...(items.length > 1 ? items : []));
  }

  under(event, root) {
    if (!this.xs.length) return;
    const box = root.getBoundingClientRect();
    const at = ((event.clientX - box.left) * root.viewBox.baseVal.width) / box.width;
    let best = 0;
    this.xs.forEach((x, i) => { if (Math.abs(this.X(x) - at) < Math.abs(this.X(this.xs[best]) - at)) best = i; });
    this.show(best);
  }

  key(event) {
    const last = this.xs.length - 1;
    const now = this.index === undefined ? -1 : this.index;
    const moves = { ArrowRight: Math.min(now + 1, last), ArrowLeft: Math.max(now - 1, 0), Home: 0, End: last };
    if (event.key in moves) {
      event.preventDefault();
      this.show(moves[event.key]);
    } else if (event.key === "Escape") this.hide();
  }

  show(index) {
    this.index = index;
    const x = this.xs[index];
    const rows = this.drawn.map((points, i) => {
      const near = points.find((p) => p.x === x);
      if (!near) return null;
      const ends = finite(near.low) ? ` (${number(near.low, 3)} to ${number(near.high, 3)})` : "";
      return el("li", {}, el("i", { class: "swatch", style: { background: this.spec.lines[i].colour } }),
        `${this.spec.lines[i].label} `, el("b", {}, number(near.y) + ends));
    }).filter(Boolean);
    this.tip.replaceChildren(el("strong", {}, `${this.spec.xTitle || "round"} ${number(x)}`), el("ul", {}, ...rows));
    this.tip.hidden = false;
    this.cursor.setAttribute("x1", this.X(x));
    this.cursor.setAttribute("x2", this.X(x));
    this.cursor.setAttribute("visibility", "visible");
    const share = this.X(x) / (this.place.clientWidth || 460);
    this.tip.style.left = share > 0.5 ? "auto" : `${this.X(x) + 12}px`;
    this.tip.style.right = share > 0.5 ? `${(this.place.clientWidth || 460) - this.X(x) + 12}px` : "auto";
  }

  hide() {
    this.tip.hidden = true;
    this.index = undefined;
    if (this.cursor) this.cursor.setAttribute("visibility", "hidden");
  }
}
