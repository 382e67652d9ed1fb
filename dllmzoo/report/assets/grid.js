// Sudoku: which slot of an answer writes which cell, and the grid with its clues and conflicts.

const SIZES = { 16: 4, 81: 9 };

function digitsIn(text) {
  const runs = text.match(/(?:\d[ \t]*\n?){16,}/g) || [];
  const found = runs.map((run) => run.replace(/\D/g, "")).filter((run) => run.length in SIZES);
  return found.length ? found[found.length - 1] : null;
}

// The slot behind each cell, read off the final text; null where the answer holds no grid.
function cellSlots(tokens) {
  const slotOf = [];
  let text = "";
  tokens.forEach((token, slot) => {
    text += token;
    for (let i = 0; i < token.length; i++) slotOf.push(slot);
  });
  const tag = text.lastIndexOf("<answer>");
  const start = tag < 0 ? 0 : tag + "<answer>".length;
  const end = tag < 0 ? text.length : (text.indexOf("</answer>", start) + text.length + 1) % (text.length + 1);
  const cells = [];
  for (let i = start; i < end; i++) {
    if (/\d/.test(text[i])) cells.push({ slot: slotOf[i], at: i });
    else if (tag < 0 && cells.length && !/\s/.test(text[i])) break;
  }
  return cells.length in SIZES ? cells.map((cell) => ({ slot: cell.slot, digit: text[cell.at] })) : null;
}

function conflicts(digits) {
  const n = SIZES[digits.length];
  const box = Math.sqrt(n);
  const clash = new Set();
  for (let a = 0; a < digits.length; a++) {
    for (let b = a + 1; b < digits.length; b++) {
      if (digits[a] === null || digits[a] === "0" || digits[a] !== digits[b]) continue;
      const [ra, ca, rb, cb] = [Math.floor(a / n), a % n, Math.floor(b / n), b % n];
      const boxed = Math.floor(ra / box) === Math.floor(rb / box) && Math.floor(ca / box) === Math.floor(cb / box);
      if (ra === rb || ca === cb || boxed) { clash.add(a); clash.add(b); }
    }
  }
  return clash;
}

// A grid as a table. `cells`: null or a digit each; `clues`: digits of the puzzle, 0 = blank;
// `look(cell)`: {style, class} of a cell.
function gridTable(cells, clues, caption, look) {
  const n = SIZES[cells.length];
  const box = Math.sqrt(n);
  const clash = conflicts(cells);
  const rows = [];
  for (let r = 0; r < n; r++) {
    const row = el("tr");
    for (let c = 0; c < n; c++) {
      const i = r * n + c;
      const clue = clues && clues[i] !== "0" ? clues[i] : null;
      const given = look ? look(i) : {};
      const classes = ["cell", given.class];
      if (clue) classes.push("clue");
      if (clue && cells[i] !== null && cells[i] !== clue) classes.push("broken");
      if (clash.has(i)) classes.push("clash");
      if (c % box === box - 1 && c < n - 1) classes.push("edge-right");
      if (r % box === box - 1 && r < n - 1) classes.push("edge-below");
      const empty = cells[i] === null || cells[i] === "0";
      const shown = empty ? (clue || "\u00a0") : cells[i];
      row.append(el("td", { class: classes.filter(Boolean).join(" "), style: given.style || {} }, shown));
    }
    rows.push(row);
  }
  return el("table", { class: "sudoku" }, el("caption", {}, caption), el("tbody", {}, ...rows));
}

// Small grids in tables of answers: puzzle, before, after.
function answerGrids() {
  for (const node of document.querySelectorAll("[data-answer]")) {
    const digits = digitsIn(node.dataset.answer);
    const clues = digitsIn(node.dataset.puzzle);
    if (!digits || !clues || digits.length !== clues.length) continue;
    node.replaceChildren(gridTable([...digits], clues, node.dataset.caption || ""));
  }
}
