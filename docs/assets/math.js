// Renders what pymdownx.arithmatex marked: \( ... \) inline, \[ ... \] on its own line.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    katex.render(text.slice(2, -2), element, {
      displayMode: text.startsWith("\\["),
      throwOnError: false,
    });
  }
});
