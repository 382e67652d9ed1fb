// Small helpers that every other script uses: elements, numbers, colours, light and dark.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, call] of Object.entries(value)) node.addEventListener(event, call);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) {
    return value.toExponential(Math.max(digits - 2, 1)).replace(/\.?0+e/, "e");
  }
  return String(Number(value.toPrecision(digits)));
}

function signed(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const text = number(Math.abs(value), digits);
  return value > 0 ? `+${text}` : value < 0 ? `−${text}` : "0";
}

function finite(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// Colours of lines are variables of the style sheet, so that they follow light and dark.
function lineColour(index) {
  return `var(--line-${index % 8})`;
}

// A ramp from dark blue over green to yellow whose lightness rises evenly; reads without colour too.
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

function ramp(share) {
  const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const below = Math.min(Math.floor(place), RAMP.length - 2);
  const part = place - below;
  const mix = RAMP[below].map((from, i) => Math.round(from + part * (RAMP[below + 1][i] - from)));
  const light = 0.299 * mix[0] + 0.587 * mix[1] + 0.114 * mix[2];
  return { back: `rgb(${mix.join(",")})`, ink: light > 120 ? "#000" : "#fff" };
}

function rampGradient() {
  return `linear-gradient(90deg, ${RAMP.map((c) => `rgb(${c.join(",")})`).join(", ")})`;
}

function wireTheme() {
  const button = byId("theme");
  if (!button) return;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    button.setAttribute("aria-pressed", String(!dark));
  });
}
