// Puts the parts of the page together; on a live page asks for what is new every two seconds.

const PAUSE = 2000;

function start() {
  const data = JSON.parse(byId("data").textContent);
  const parts = {};
  wireTheme();
  if (byId("curves")) parts.curves = new Curves(byId("curves"), data);
  showSteps(data);
  showViewer(data, parts);
  labCharts(data);
  answerGrids();
  if (data.live) ask(data.version, parts);
  document.documentElement.dataset.ready = "true";
}

function showSteps(data) {
  const place = byId("by-step");
  if (place) place.closest("section").hidden = stepCharts(place, data) === 0;
}

function showViewer(data, parts) {
  const place = byId("viewer");
  if (!place) return;
  const traces = [...data.runs.flatMap((run) => run.traces || [])];
  place.closest("section").hidden = traces.length === 0;
  if (!traces.length) return;
  if (parts.viewer) parts.viewer.update(traces);
  else parts.viewer = new Viewer(place, traces, { runs: data.runs.length, last: true });
}

function ask(version, parts) {
  const status = byId("live");
  const later = (next) => setTimeout(() => ask(next, parts), PAUSE);
  fetch(`data.json?have=${version}`, { cache: "no-store" })
    .then((answer) => (answer.status === 204 ? null : answer.json()))
    .then((data) => {
      if (data) {
        parts.curves.update(data);
        showSteps(data);
        showViewer(data, parts);
        overview(data);
      }
      status.textContent = "live";
      status.dataset.state = "on";
      later(data ? data.version : version);
    })
    .catch(() => {
      status.textContent = "no answer: the watch command has ended or the machine is away";
      status.dataset.state = "off";
      later(version);
    });
}

// The numbers of the overview that change while a run goes on.
function overview(data) {
  data.runs.forEach((run, i) => {
    const row = document.querySelector(`[data-run="${i}"]`);
    if (!row) return;
    row.querySelector(".rounds").textContent = run.planned ? `${run.rounds} of ${run.planned}` : run.rounds;
    row.querySelector(".last").textContent = run.last ? number(run.last[0]) : "–";
    row.querySelector(".state").textContent = run.state;
  });
}

start();
