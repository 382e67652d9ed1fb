"""The denoising viewer in a real browser: scrub, play, colours, keys, grids, long answers."""

import json

import pytest

from dllmzoo.report.page import trace_page
from dllmzoo.report.traces import trace
from tests.unit.report import made
from tests.unit.report.shown import refuse_trouble

GRID = ".board .sudoku td"


@pytest.fixture
def viewed(browser, tmp_path):
    """Open the viewer on lines of rollouts."""
    tabs = []

    def call(*lines, task="sudoku", **view):
        file = tmp_path / "trace.html"
        traces = [trace(each, task=task) for each in lines]
        file.write_text(trace_page(traces, title="answers"), encoding="utf-8")
        tabs.append(browser.open(file.as_uri(), **view))
        return tabs[-1]

    yield call
    for tab in tabs:
        refuse_trouble(tab)


def hidden(tab) -> int:
    return tab.count("span.slot.hidden")


def cells(tab, name) -> list[int]:
    """Numbers of the cells of a class."""
    return tab.run(
        f"[...document.querySelectorAll('{GRID}')]"
        f".flatMap((c, i) => c.classList.contains('{name}') ? [i] : [])"
    )


def focus(tab) -> None:
    tab.run("document.querySelector('.viewer').focus()")


def test_scrubbing_shows_the_tokens_written_before_the_step(viewed):
    tab = viewed(made.sudoku_line())
    assert hidden(tab) == 16 and tab.text(".where") == "before step 0 of 4"
    for step, left in ((1, 12), (3, 4), (4, 0), (2, 8)):
        tab.set(".scrub", step)
        assert hidden(tab) == left
    # before step 2 the third row is written next, the second was written last
    assert tab.run("[...document.querySelectorAll('span.next')].map(s => +s.dataset.slot)") == [
        8, 9, 10, 11,
    ]  # fmt: skip
    assert tab.run("[...document.querySelectorAll('span.fresh')].map(s => +s.dataset.slot)") == [
        4, 5, 6, 7,
    ]  # fmt: skip


def test_playing_runs_to_the_end_and_stops(viewed):
    tab = viewed(made.sudoku_line())
    tab.run("document.querySelector('button[title=play]').click()")
    assert tab.run("document.querySelector('button[title=play]').ariaLabel") == "pause"
    tab.wait("document.querySelector('.where').textContent === 'end, 4 steps done'")
    tab.wait("document.querySelector('button[title=play]').ariaLabel === 'play'")
    assert hidden(tab) == 0


def test_every_move_has_a_key(viewed):
    tab = viewed(made.sudoku_line(), made.sudoku_line(sample=1, reward=0.75))
    focus(tab)
    tab.press("ArrowRight", "ArrowRight")
    assert tab.text(".where") == "before step 2 of 4"
    tab.press("ArrowLeft")
    assert tab.text(".where") == "before step 1 of 4"
    tab.press("End")
    assert tab.text(".where") == "end, 4 steps done"
    tab.press("Home", "g")
    assert tab.text(".where") == "before step 2 of 4"
    tab.press("g", "c")
    assert tab.text(".where") == "before step 3 of 4"
    assert tab.run("document.querySelector('[aria-label=\"colour by\"]').value") == "confidence"
    tab.press("]", "]")
    assert tab.text(".token").startswith('slot 1 "2": written by step 0')
    tab.press("n")
    assert tab.run("document.querySelector('.answers').value") == "1"
    tab.press("ArrowRight", shift=True)
    assert tab.text(".where") == "end, 4 steps done"
    tab.press(" ")
    assert tab.run("document.querySelector('button[title=play]').ariaLabel") == "pause"


def test_a_chosen_step_shows_its_guess_its_reward_and_its_credit(viewed):
    tab = viewed(made.sudoku_line(reward=0.5))
    focus(tab)
    tab.press("g")  # step 2 is rank 2: guess reward 0.1, gain 0.5 - 0.1, advantage 0.5
    said = dict(
        zip(
            tab.texts(".side dt"),
            tab.texts(".side dd"),
            strict=True,
        )
    )
    assert said["chosen"] == "rank 2 of 2, weight 1"
    assert said["reward of the guess"] == "0.1" and said["gain over the guess"] == "+0.4"
    assert said["advantage"] == "+0.5" and said["final reward"] == "0.5"
    assert said["this step writes"] == "4 tokens" and said["their entropy"] == "0.3 nats"
    assert tab.count(".side .sudoku td") == 16
    assert tab.count(".strip .bar-chosen") == 2 and tab.count(".strip .bar-step") == 2
    rows = tab.run("[...document.querySelectorAll('.chosen tbody tr')].map(r => r.innerText)")
    assert [row.split() for row in rows] == [
        ["2", "2", "1", "0.3", "0.1", "+0.4", "+0.5"],
        ["3", "1", "1", "0.4", "0", "+0.5", "\N{MINUS SIGN}0.5"],
    ]


def test_sudoku_is_a_grid_with_clues_and_conflicts(viewed):
    tab = viewed(made.sudoku_line(tokens=list(made.WRONG)))
    tab.run("document.querySelector('button[title=\"to the end\"]').click()")
    assert "".join(tab.texts(GRID)) == made.WRONG
    # clues of 1000 0400 0010 0002: cells 0, 5, 10, 15 are 1, 4, 1, 2; the answer has 1, 4, 2, 1
    assert cells(tab, "clue") == [0, 5, 10, 15]
    assert cells(tab, "broken") == [10, 15]
    # the first row 1214 holds two 1s, at 0 and 2
    assert {0, 2} <= set(cells(tab, "clash"))


def test_an_answer_in_words_finds_its_grid_between_the_tags(viewed):
    tokens = ["so", " <", "answer>", *made.SOLVED, "</answer>", "<|endoftext|>"]
    tab = viewed(made.line(tokens=tokens, reveal=list(range(len(tokens)))))
    tab.run("document.querySelector('button[title=\"to the end\"]').click()")
    assert "".join(tab.texts(GRID)) == made.SOLVED
    assert tab.count("span.special") == 2


def test_text_of_other_tasks_stays_text(viewed):
    tokens = ["The", " answer", "\n", "is <b>4</b>"]
    tab = viewed(made.line(tokens=tokens, reveal=[0, 1, 1, 2]), task="gsm8k")
    assert tab.count(".board .sudoku") == 0 and tab.count(".board b") == 0
    focus(tab)
    tab.press("End")
    assert tab.text(".tokens") == "The answer↵\nis <b>4</b>"


@pytest.mark.parametrize(("colouring", "ends"), [
    ("reveal", ["reveal step: first step", "step 3"]),
    ("confidence", ["confidence: 0", "1"]),
    ("entropy", ["entropy: 0", "0.4 nats"]),
])  # fmt: skip
def test_tokens_are_coloured_by_what_is_asked_for(viewed, colouring, ends):
    tab = viewed(made.sudoku_line())
    focus(tab)
    tab.press("End")
    tab.set('[aria-label="colour by"]', colouring)
    assert tab.texts(".scale span") == ends
    backs = tab.run("[...document.querySelectorAll('span.slot')].map(s => s.style.background)")
    different = {"reveal": 4, "confidence": 16, "entropy": 4}[colouring]
    assert len(set(backs)) == different
    if colouring == "reveal":  # the ramp's two ends
        assert backs[0] == "rgb(68, 1, 84)" and backs[15] == "rgb(253, 231, 37)"


def test_slots_that_are_masked_again_are_hidden_again(viewed):
    writes = [[[0, "x"]], [[0, None], [1, "b"]], [[0, "a"]]]
    record = made.line(tokens=["a", "b"], reveal=[2, 1], writes=writes)
    tab = viewed(record, task="gsm8k")
    focus(tab)
    tab.press("ArrowRight")
    assert tab.texts("span.slot:not(.hidden)") == ["x"]
    tab.press("ArrowRight")
    assert tab.texts("span.slot:not(.hidden)") == ["b"]
    tab.press("ArrowRight")
    assert tab.text(".tokens") == "ab"


def test_a_record_with_little_in_it_shows_what_is_there(viewed):
    bare = {"prompt": "p", "answer": "ab", "reveal": [1, 0]}
    given = {"prompt": "p", "answer": "ab", "reveal": [-1, -1], "reward": 1.0}
    tab = viewed(bare, given, task=None)
    focus(tab)
    tab.press("ArrowRight")
    assert hidden(tab) == 1
    tab.press("n")
    assert tab.text(".where") == "not denoised here" and tab.text(".tokens") == "ab"


def test_512_tokens_in_256_steps_are_scrubbed_at_once_on_a_phone(viewed):
    tokens = [f" word{n}" for n in range(512)]
    long = made.line(
        tokens=tokens, reveal=[n // 2 for n in range(512)], chosen=tuple(range(0, 256, 32))
    )
    tab = viewed(long, task="math500", width=360, height=740)
    assert (
        tab.count("span.slot") == 512 and tab.count(".strip .bar-step, .strip .bar-chosen") == 256
    )
    assert tab.run("document.documentElement.scrollWidth") <= 360
    spent = tab.run(
        "(() => { const s = document.querySelector('.scrub'); const t = performance.now(); "
        "for (let p = 0; p <= 256; p++) { s.value = p; s.dispatchEvent(new Event('input')); } "
        "return performance.now() - t; })()"
    )
    assert hidden(tab) == 0
    assert spent < 256 * 40, f"{spent / 256:.1f} ms a step"


def test_a_hostile_answer_is_only_text(viewed):
    hostile = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    tab = viewed(made.line(tokens=[hostile], reveal=[0], prompt=hostile), task="x" + hostile)
    assert tab.run("window.hit === undefined")
    assert json.loads(tab.text("#data"))["runs"][0]["traces"][0]["answer"] == hostile
