// A chart as a file of its own: as it is drawn, with title and legend, every colour written out.

const WRITTEN = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight", "text-anchor",
];
const LINE = 18; // height of a line of the legend
const PIXELS = 3; // of a PNG, for each of the page

function saveButtons(chart) {
  const button = (kind, save) => el("button", { type: "button", class: "small", on: { click: () => save(chart) } }, kind);
  const made = [button("SVG", saveSvg), button("PNG", savePng)];
  return {
    node: el("span", { class: "saves" }, ...made),
    name(title, able) {
      for (const each of made) {
        each.setAttribute("aria-label", `save ${title} as ${each.textContent}`);
        each.title = each.getAttribute("aria-label");
        each.disabled = !able;
      }
    },
  };
}

function saveSvg(chart) {
  download(new Blob([standalone(chart).text], { type: "image/svg+xml" }), `${fileName(chart)}.svg`);
}

function savePng(chart) {
  const { text, width, height } = standalone(chart);
  const image = new Image();
  image.onload = () => {
    const canvas = el("canvas", { width: width * PIXELS, height: height * PIXELS });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(blob, `${fileName(chart)}.png`), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

function fileName(chart) {
  return chart.spec.title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "_").replace(/^_+|_+$/g, "") || "chart";
}

function download(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The look of every element as attributes: a file of its own has no style sheet.
function writeLook(from, to) {
  const look = getComputedStyle(from);
  for (const name of WRITTEN) to.setAttribute(name, look.getPropertyValue(name));
  to.removeAttribute("style");
  to.removeAttribute("class");
  [...from.children].forEach((child, i) => writeLook(child, to.children[i]));
}

// The chart as text of an SVG file, with its size in pixels.
function standalone(chart) {
  const drawn = chart.place.querySelector("svg");
  const { width, height } = drawn.viewBox.baseVal;
  const page = getComputedStyle(chart.node);
  const text = (words, x, y, more) => svg("text", { x, y, fill: page.color, "font-family": page.fontFamily, "font-size": "12px", ...more }, words);
  const body = drawn.cloneNode(true);
  writeLook(drawn, body);
  const plot = svg("g", {}, ...[...body.childNodes].filter((_, i) => drawn.childNodes[i] !== chart.cursor));
  const head = [text(chart.spec.title, 8, 18, { "font-size": "14px", "font-weight": "600" })];
  if (chart.spec.unit) head.push(text(chart.spec.unit, 8, 34, {}));
  const top = chart.spec.unit ? 40 : 24;
  const keys = legendRows(chart, width, text);
  plot.setAttribute("transform", `translate(0 ${top})`);
  const legend = svg("g", { transform: `translate(0 ${top + height})` }, ...keys.nodes);
  const tall = top + height + keys.rows * LINE + 6;
  const root = svg("svg", { xmlns: SVG, width, height: tall, viewBox: `0 0 ${width} ${tall}` },
    svg("title", {}, chart.spec.title), svg("rect", { width, height: tall, fill: getComputedStyle(document.body).backgroundColor }),
    ...head, plot, legend);
  return { text: new XMLSerializer().serializeToString(root), width, height: tall };
}

// The legend of the page, in rows that fit the width.
function legendRows(chart, width, text) {
  const pen = el("canvas", {}).getContext("2d");
  pen.font = `12px ${getComputedStyle(chart.node).fontFamily}`;
  const nodes = [];
  let [x, row] = [8, 0];
  for (const item of chart.legend.children) {
    const label = item.textContent;
    const wide = 28 + pen.measureText(label).width + 14;
    if (x > 8 && x + wide > width) [x, row] = [8, row + 1];
    const y = row * LINE + 8;
    const line = item.querySelector("line").cloneNode(true);
    writeLook(item.querySelector("line"), line);
    for (const [name, value] of Object.entries({ x1: x, x2: x + 22, y1: y, y2: y })) line.setAttribute(name, value);
    nodes.push(line, text(label, x + 28, y + 4, {}));
    x += wide;
  }
  return { nodes, rows: nodes.length ? row + 1 : 0 };
}
