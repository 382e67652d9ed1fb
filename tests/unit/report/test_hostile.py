"""Pages of odd runs: hostile text, no rounds yet, torn lines, values that are no numbers."""

import json

import pytest

from tests.unit.report import made
from tests.unit.report.shown import refuse_trouble, write

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>&amp;{{ 1 }}"
RIGHT_TO_LEFT = "\u202e\u05e9\u05dc\u05d5\u05dd 4\u202c"
EMOJI = "\U0001f469\u200d\U0001f680\U0001f1eb\U0001f1f7é\u0301"
LONG = "x" * 5000
SEPARATORS = "a\u2028b\u2029c\x00\x1b[31m"
WORDS = [HOSTILE, RIGHT_TO_LEFT, EMOJI, LONG, SEPARATORS, "\n\t", ""]


def odd_run(folder):
    """A run whose every text is odd."""
    rollouts = {2: [made.line(tokens=WORDS, reveal=list(range(7)), prompt=HOSTILE, chosen=(1, 3))]}
    keys = ["reward", "eval/solved_rate", f"reward/{HOSTILE}"]
    recipe = {"title": HOSTILE, "loss": {"name": HOSTILE, RIGHT_TO_LEFT: LONG}}
    run = made.run(folder, 2, keys=keys, rollouts=rollouts, recipe=recipe)
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"title": HOSTILE}))
    made.outcomes(run, [0, 1], [1, 0])
    for when, text in (("start", HOSTILE), ("end", f"{RIGHT_TO_LEFT} {LONG}")):
        made.kept(run, when, [text, text], [when == "end", when == "start"])
    return run


@pytest.fixture(scope="module")
def tab(browser, tmp_path_factory):
    """A page of two odd runs."""
    folder = tmp_path_factory.mktemp("odd")
    runs = [odd_run(folder / "<i>one<b>"), odd_run(folder / EMOJI)]
    shared = browser.open(write(folder / "report.html", runs).as_uri(), width=360, height=740)
    yield shared
    refuse_trouble(shared)


def test_hostile_text_stays_text_wherever_it_stands(tab):
    assert tab.run("window.hit === undefined")
    assert tab.count("img") == 0 and tab.count("main i:not(.swatch):not(.scale i)") == 0
    assert tab.count("main b:not(.tip b)") == 0
    assert tab.count("script") == 2
    text = tab.text("main")
    assert HOSTILE in text and "<i>one<b>" in text
    assert HOSTILE in tab.text("#manifest-part") and HOSTILE in tab.text("#answers-part")


def test_tokens_of_every_script_are_shown_as_they_are(tab):
    tab.run("document.querySelector('.viewer').focus()")
    tab.press("End")
    assert tab.texts("span.slot") == [
        HOSTILE, RIGHT_TO_LEFT, EMOJI, LONG, SEPARATORS, "↵\n\t", ""
    ]  # fmt: skip
    # the text itself says from which side it is read
    for block in (".tokens", "#answers-part pre"):
        look = f"getComputedStyle(document.querySelector('{block}')).unicodeBidi"
        assert tab.run(look) == "plaintext"
    tab.press("]", "]")
    assert "written by step 1" in tab.text(".token") and RIGHT_TO_LEFT in tab.text(".token")


def test_long_tokens_need_no_scrolling_aside_on_a_phone(tab):
    tab.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert tab.run("document.documentElement.scrollWidth") <= 360


def test_a_run_without_a_round_is_a_page(opened, tmp_path):
    run = made.run(tmp_path / "run", 5, keys=[], rollouts={}, finished=False)
    (run / "metrics.jsonl").write_text("")
    tab = opened(run)
    assert tab.texts("tr[data-run] td")[1] == "0 of 5"
    assert tab.texts("tr[data-run] .state") == ["not finished"]
    assert tab.count(".chart") == 0 and tab.run("document.getElementById('viewer-part').hidden")


def test_a_run_that_is_being_written_shows_its_whole_lines(opened, tmp_path):
    keys = ["reward", "kl"]
    run = made.run(tmp_path / "run", 5, keys=keys, rollouts={}, finished=False)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"round": 6, "reward": 0.5, "k')
    (run / "rollouts").mkdir()
    (run / "rollouts" / "000005.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00torn")
    (run / "evaluations.json").write_text('{"start": {"8": [0, 1')
    tab = opened(run)
    assert tab.texts("tr[data-run] .rounds") == ["5 of 5"]
    assert "reward" in tab.texts(".chart h4")


def test_values_that_are_no_numbers_are_gaps(opened, tmp_path):
    run = made.run(tmp_path / "run", 1, keys=["reward"], rollouts={})
    rows = [{"round": n, "reward": 0.1 * n, "kl": float("nan"), "grad_norm": 1.0} for n in range(9)]
    rows[4] |= {"reward": float("nan"), "grad_norm": float("inf")}
    rows[5] |= {"reward": None, "grad_norm": float("-inf")}
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert "NaN" in text and "Infinity" in text
    (run / "metrics.jsonl").write_text(text)
    tab = opened(run)
    charts = "[...document.querySelectorAll('.chart')]"
    dots = f"{charts}.find(c => c.querySelector('h4').textContent === 'reward')"
    assert tab.run(f"{dots}.querySelectorAll('circle').length") == 7
    empty = f"{charts}.find(c => c.querySelector('h4').textContent === 'KL to the reference')"
    assert tab.run(f"{empty}.querySelector('.empty').textContent") == "no values"
