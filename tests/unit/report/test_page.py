"""The report in a real browser: curves, legends, keys, small screens, and how large it may get."""

import random

import pytest

from tests.unit.report import made
from tests.unit.report.shown import refuse_trouble, write

REWARD = (
    "[...document.querySelectorAll('.chart')]"
    ".find(c => c.querySelector('h4').textContent === 'reward')"
)


def runs_below(folder):
    """Two runs that differ in a clip."""
    other = {"loss": {"name": "clipped_surrogate", "clip_low": 0.1}}
    rollouts = {4: [made.sudoku_line(), made.sudoku_line(sample=1, reward=0.0)]}
    return [
        made.run(folder / "one", 6, every=2, rollouts=rollouts),
        made.run(folder / "two", 6, every=3, recipe=other, level=0.1),
    ]


@pytest.fixture
def two(tmp_path):
    return runs_below(tmp_path)


@pytest.fixture(scope="module")
def tab(browser, tmp_path_factory):
    """Their page, for tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("two")
    file = write(folder / "report.html", runs_below(folder))
    shared = browser.open(file.as_uri())
    yield shared
    refuse_trouble(shared)


def test_every_documented_metric_is_drawn_or_said(tab):
    tab.run("document.querySelectorAll('details.group').forEach(d => { d.open = true; })")
    tab.wait("document.querySelectorAll('.chart').length > 40")
    titles = tab.texts(".chart:not([hidden]) h4")
    for title in ("reward", "eval solved rate", "KL to the reference", "clip fraction",
                  "gradient norm", "ratio quantiles", "effective sample size", "dead groups",
                  "entropy by step: one", "chosen steps: two"):  # fmt: skip
        assert title in titles
    assert "Further keys" not in tab.text("main")
    assert tab.count(".chart:not([hidden]) .empty") == 0


def test_runs_are_overlaid_and_switched_off_and_on(tab):
    lines = f"{REWARD}.querySelectorAll('path.line').length"
    assert tab.run(lines) == 4  # reward and preview_reward of both
    tab.run("document.getElementById('run-1').click()")
    assert tab.run(lines) == 2
    tab.run("document.getElementById('run-1').click()")
    assert tab.run(lines) == 4
    colours = tab.run(f"[...{REWARD}.querySelectorAll('path.line')].map(p => p.style.stroke)")
    assert colours == ["var(--line-0)", "var(--line-0)", "var(--line-1)", "var(--line-1)"]


def test_the_arrow_keys_read_values(tab):
    tab.run(f"{REWARD}.querySelector('svg[tabindex]').focus()")
    tab.press("End")
    said = tab.run(f"{REWARD}.querySelector('.tip').innerText")
    assert said.startswith("round 6") and "one reward" in said and "two preview_reward" in said
    tab.press("ArrowLeft")
    assert tab.run(f"{REWARD}.querySelector('.tip strong').textContent") == "round 5"
    tab.press("Escape")
    assert tab.run(f"{REWARD}.querySelector('.tip').hidden") is True


def test_the_pointer_reads_the_nearest_round(tab):
    box = tab.run(
        f"(() => {{ const s = {REWARD}.querySelector('svg[tabindex]'); s.scrollIntoView(); "
        "const b = s.getBoundingClientRect(); return [b.left, b.top, b.width]; })()"
    )
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] - 16, y=box[1] + 60)
    assert tab.run(f"{REWARD}.querySelector('.tip strong').textContent") == "round 6"


def test_axes_and_smoothing_change_what_is_drawn(opened, two):
    tab = opened(*two)
    tab.set("#axis", "update")
    tab.run(f"{REWARD}.querySelector('svg[tabindex]').focus()")
    tab.press("End")
    assert tab.run(f"{REWARD}.querySelector('.tip strong').textContent") == "optimiser updates 12"
    tab.set("#smooth", 0.5)
    assert tab.run(f"{REWARD}.querySelectorAll('path.raw').length") == 4
    tab.run(f"{REWARD}.querySelector('button').click()")
    assert tab.run(f"{REWARD}.querySelector('button').textContent") == "log"


def test_differences_rates_and_changed_answers_are_tables(opened, two):
    made.outcomes(two[0], [0, 1, 0, 1], [1, 1, 1, 0])
    for when, right in (("start", [0, 1, 0, 1]), ("end", [1, 1, 1, 0])):
        texts = [made.SOLVED if hit else made.WRONG for hit in right]
        made.kept(two[0], when, texts, [bool(hit) for hit in right])
    tab = opened(*two)
    assert tab.texts("#differences tbody tr > *") == ["loss.clip_low", "0.2", "0.1"]
    said = tab.text("#evaluation-part")
    assert "+0.250" in said and "0.75" in said
    summaries = tab.texts("#answers-part summary")
    assert summaries == ["2 of 4 answers became better", "1 of 4 answers became worse"]
    assert tab.count("#answers-part .sudoku") == 6


def test_a_phone_needs_no_scrolling_aside(opened, two):
    tab = opened(*two, width=360, height=740)
    assert tab.run("document.documentElement.scrollWidth") <= 360
    assert tab.run(f"{REWARD}.getBoundingClientRect().width") <= 360


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_follow_the_system_until_the_button_is_pressed(opened, two, dark):
    tab = opened(*two, dark=dark)
    back = "getComputedStyle(document.body).backgroundColor"
    light, night = "rgb(255, 255, 255)", "rgb(13, 17, 23)"
    assert tab.run(back) == (night if dark else light)
    tab.run("document.getElementById('theme').click()")
    assert tab.run(back) == (light if dark else night)


def test_everything_that_acts_has_a_name_and_can_be_reached(tab):
    unnamed = (
        "[...document.querySelectorAll('button, select, input, [tabindex]')].filter(n => "
        "!(n.ariaLabel || n.textContent.trim() || n.labels && n.labels.length)).length"
    )
    assert tab.run(unnamed) == 0
    assert tab.run("document.documentElement.lang") == "en"
    assert tab.count("h1") == 1 and tab.count("main") == 1
    ids = tab.run("[...document.querySelectorAll('[id]')].map(n => n.id)")
    assert len(ids) == len(set(ids))
    targets = tab.run("[...document.querySelectorAll('nav a')].map(a => a.hash.slice(1))")
    assert targets and set(targets) <= set(ids)


def test_a_run_of_500_rounds_with_long_answers_stays_below_3_mb(opened, tmp_path):
    chance = random.Random(0)

    def long(sample):
        tokens = [chance.choice([" the", " answer", "42", " therefore", "\n"]) for _ in range(512)]
        answer = made.line(
            tokens=tokens, reveal=[n // 2 for n in range(512)], sample=sample, group=sample // 4,
            reward=chance.random(), chosen=tuple(range(8)),
        )  # fmt: skip
        return answer | {"entropy": [chance.random() for _ in range(512)]}

    lines = [long(sample) for sample in range(8)]
    keys = [*made.metric_keys(), *(f"reward/part{n}" for n in range(10))]
    rollouts = dict.fromkeys(range(10, 501, 98), lines)
    run = made.run(tmp_path / "long", 500, every=25, keys=keys, rollouts=rollouts)
    tab = opened(run)
    assert (tmp_path / "report.html").stat().st_size < 3e6
    assert tab.count(".answers option") >= 6
    assert tab.run("document.querySelector('span.slot') !== null")


def test_a_lab_s_charts_are_drawn(opened, two):
    line = {"label": "a", "x": [1, 2], "y": [0.1, 1.0], "low": [0.05, 0.5], "high": [0.2, 2.0]}
    chart = {"title": "bands", "unit": "", "meaning": "", "log": True, "xTitle": "forwards"}
    table = {"title": "t", "head": ["h"], "rows": [["<i>cell</i>"]]}
    lab = {"title": "A lab", "notes": ["said"], "tables": [table]}
    lab["charts"] = [chart | {"lines": [line]}]
    tab = opened(*two, labs=[lab])
    assert tab.count("[data-lab] path.band") == 1 and tab.count("#lab-0 i") == 0
    assert "<i>cell</i>" in tab.text("#lab-0")
