"""4x4 Sudoku: generated or public puzzles, split so that no test solution is seen in training."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import AfterValidator, BeforeValidator, Field

from dllmzoo.errors import TaskError
from dllmzoo.protocols import Ratio
from dllmzoo.records import Example, Key, Rewards
from dllmzoo.tasks._epochs import epoch_positions
from dllmzoo.tasks._given import BLANK, spoilt
from dllmzoo.tasks._grids import DIGITS, count_solutions
from dllmzoo.tasks._parse import cut_digits, exact_grid, last_answer, written_grid
from dllmzoo.tasks._puzzles import MOST_BLANKS, distinct_puzzles, puzzles
from dllmzoo.tasks._question_prompts import PREFILL
from dllmzoo.tasks._rewards import OnError, checked_weights, score
from dllmzoo.tasks._splits import Split, held_out, training_grids
from dllmzoo.tasks._sudoku_file import read_puzzles
from dllmzoo.tasks._sudoku_grade import (
    blank_cells,
    cell_share,
    clues_kept,
    correct_cells,
    solved,
)
from dllmzoo.zoo import TASKS

COMPONENTS = ("cells", "cells_released", "solved")

RULES = """\
Fill in a 4x4 Sudoku. Every row, every column and each of the four 2x2 boxes must hold the digits \
1, 2, 3 and 4 once.
The grid is written as 16 digits: row after row from the top, each row from left to right. A 0 is \
an empty cell; every other digit is given and must stay.
Think it through between <reasoning> and </reasoning>. Then write the 16 digits of the complete \
grid, and nothing else, between <answer> and </answer>.
Puzzle: """


def _possible(blanks: Any) -> Any:
    """Refuse a number of blanks for which no puzzle has one solution, and say why."""
    if type(blanks) is int and blanks > MOST_BLANKS:
        raise ValueError(
            f"{blanks} blanks leave fewer than 4 clues, and no such puzzle has a single solution; "
            f"at most {MOST_BLANKS}"
        )
    return blanks


def _known(weights: dict[str, float]) -> dict[str, float]:
    return checked_weights(weights, COMPONENTS)


Blanks = Annotated[int, Field(ge=1, le=12), BeforeValidator(_possible)]


@TASKS.register("sudoku", aliases=("sudoku4",))
@dataclass(frozen=True)
class Sudoku:
    """4x4 Sudoku puzzles, rewarded by cells or by the solved grid.

    There are only 288 solved grids, so puzzles split at random would show every test solution in
    training: solutions are split instead. Generated puzzles have exactly one solution.

    With `test_file` the solutions of that file are the held-out ones, and training keeps off
    them (off their whole class, as `split` says). With `file` alone its rows are divided as
    `split` says; with both, rows of `file` whose solution is tested are left out.

    For the sampler `stored` every prompt comes with a right and a spoilt solution in turn; for
    `infill` with the grid itself, its empty cells being the blanks.

    Args:
        prompt_style: `compact`: the puzzle's 16 digits and `=`; the whole answer must be exactly
            16 digits 1-4. `chat`: a message with the rules; the answer stands in the last answer
            tag, as 16 digits or as four rows of four. `d1_eval`: `chat` with the answer begun by
            the prompt.
        blanks: fewest and most blanks of a generated training puzzle, uniform between them, in
            [1, 12].
        test_blanks: the same for generated test puzzles.
        split: what is held out. `by_solution`: 72 of the 288 grids; `by_relabelling`: 3 of the
            12 classes of 24 grids equal up to the names of the digits; `by_symmetry`: the 96
            grids of one of the two kinds that all symmetries leave.
        split_seed: of the split and of the generated test puzzles.
        rewards: component -> weight. `cells`: share of blank cells equal to the stored solution,
            0 if a clue is changed; `solved`: 1 for any grid that keeps the clues and the rules;
            `cells_released`: as d1 scores, clues may change and answers are read with `parser:
            d1`. An answer that cannot be read gets 0.
        parser: `strict`, or `d1`: all digits of the last answer tag (of the text, in `compact`),
            cut or filled up with zeros to 16.
        careless: share in [0, 1] of demonstrations in which every blank holds a random digit.
        file: CSV with the columns Puzzle and Solution to train on, relative to the current
            folder; null generates.
        test_file: the same to test on.
        on_error: what an error inside a reward does: stop, count as 0, or leave the text out.

    References:
        Zhao et al., 2025, d1 (arXiv:2504.12216): task, file format, `cells_released`. Differs from
        it in: unique solutions, a split without leaks, clues that must stay, a strict parser.
    """

    prompt_style: Literal["compact", "chat", "d1_eval"] = "compact"
    blanks: tuple[Blanks, Blanks] = (4, 8)
    test_blanks: tuple[Blanks, Blanks] = (8, 8)
    split: Split = "by_solution"
    split_seed: int = 0
    rewards: Annotated[dict[str, float], AfterValidator(_known)] = field(
        default_factory=lambda: {"cells": 1.0}
    )
    parser: Literal["strict", "d1"] = "strict"
    careless: Annotated[float, Field(ge=0, le=1)] = 0.0
    file: str | None = None
    test_file: str | None = None
    on_error: OnError = "raise"

    primary: ClassVar[str] = "solved_rate"
    gives: ClassVar[frozenset[str]] = frozenset({"answers", "blanks"})

    def __post_init__(self) -> None:
        """Check the two ranges."""
        for name, (fewest, most) in (("blanks", self.blanks), ("test_blanks", self.test_blanks)):
            if fewest > most:
                raise ValueError(f"{name}: the fewest, {fewest}, are more than the most, {most}")

    def draw(self, num: int, key: Key) -> list[Example]:
        """Training puzzles of a round; a file is gone through in shuffled epochs."""
        if self.file is not None:
            rows = self._training_rows
            return [rows[i] for i in epoch_positions(len(rows), num, key)]
        return list(islice(puzzles(self._training_grids, self.blanks, key.generator()), num))

    def test(self, num: int) -> list[Example]:
        """The first `num` held-out puzzles, all different; fewer if there are fewer."""
        if self._test_rows is not None:
            return list(self._test_rows[:num])
        generator = Key(self.split_seed, 0, "sudoku_test").generator()
        return list(distinct_puzzles(sorted(self._held_out), self.test_blanks, num, generator))

    def prompt(self, example: Example) -> str | list[dict[str, str]]:
        """`0234300221430021=`, or a user message with the rules and the puzzle last."""
        if self.prompt_style == "compact":
            return f"{example['puzzle']}="
        user = {"role": "user", "content": RULES + example["puzzle"]}
        begun = [{"role": "assistant", "content": PREFILL}]
        return [user, *(begun if self.prompt_style == "d1_eval" else [])]

    def answer(self, example: Example, key: Key, sample: int) -> str:
        """The stored solution as an answer; careless ones fill the blanks at random."""
        grid = example["solution"]
        if self.careless:
            generator = key.generator(sample)
            if torch.rand((), generator=generator) < self.careless:
                guesses = torch.randint(len(DIGITS), (len(grid),), generator=generator).tolist()
                cells = zip(example["puzzle"], guesses, strict=True)
                grid = "".join(DIGITS[guess] if clue == "0" else clue for clue, guess in cells)
        return self._written(grid)

    def given(self, example: Example, key: Key, sample: int) -> str:
        """One of a pair of stored answers: the solution if `sample` is even, else a spoilt one.

        In a spoilt one some of the blanks, one to all, hold another digit; drawn from the key.
        """
        if sample % 2 == 0:
            return self._written(example["solution"])
        return self._written(spoilt(example, key.generator(sample)))

    def given_blanks(self, example: Example, key: Key, sample: int) -> str:
        """The puzzle as an answer whose empty cells are blanks to fill in."""
        return self._written(example["puzzle"].replace("0", BLANK))

    def reward(self, texts: Sequence[str], examples: Sequence[Example]) -> Rewards:
        """Weighted components of X texts; text x answers example x."""
        functions = {
            "cells": self._cells,
            "cells_released": self._cells_released,
            "solved": self._solved,
        }
        source = self.file or self.test_file or "sudoku"
        return score(functions, self.rewards, texts, examples, self.on_error, source)

    def metrics(self, texts: Sequence[str], examples: Sequence[Example]) -> dict[str, Ratio]:
        """Rates of solved puzzles, correct blank cells, kept clues and readable answers.

        `cell_accuracy` is over all blank cells of the set, as published numbers are: changed
        clues do not matter, unreadable answers have no correct cell. `ambiguous_share` is the
        share of puzzles with more than one solution.
        """
        grids = [self.read(text) for text in texts]
        pairs = list(zip(grids, examples, strict=True))
        one = [1.0] * len(pairs)
        return {
            "solved_rate": Ratio([float(solved(g, e)) for g, e in pairs], one),
            "cell_accuracy": Ratio(
                [float(correct_cells(g, e)) for g, e in pairs],
                [float(blank_cells(e)) for e in examples],
            ),
            "clue_kept_rate": Ratio([float(clues_kept(g, e)) for g, e in pairs], one),
            "parse_rate": Ratio([float(g is not None) for g in grids], one),
            "ambiguous_share": Ratio(
                [float(count_solutions(e["puzzle"]) > 1) for e in examples], one
            ),
        }

    def read(self, text: str) -> str | None:
        """The 16 characters of the answered grid; None = parse failure. Rewards and metrics."""
        if self.parser == "d1":
            return self._read_released(text)
        if self.prompt_style == "compact":
            return exact_grid(text)
        inside = last_answer(text)
        return None if inside is None else written_grid(inside)

    def check(self) -> list[str]:
        """Problems of the files, known before training; nothing is read without a file."""
        problems = []
        for path in (self.file, self.test_file):
            if path is not None:
                try:
                    read_puzzles(path)
                except TaskError as error:
                    problems.append(str(error))
        if not problems and (self.file or self.test_file):
            try:
                _ = self._training_rows if self.file else self._training_grids
                _ = self._test_rows
            except TaskError as error:
                problems.append(str(error))
        return problems

    def _written(self, grid: str) -> str:
        """A grid as the answer that the prompt asks for."""
        return grid if self.prompt_style == "compact" else f"<answer>\n{grid}\n</answer>"

    def _read_released(self, text: str) -> str | None:
        inside = text if self.prompt_style == "compact" else last_answer(text)
        return None if inside is None else cut_digits(inside)

    def _cells(self, texts: Sequence[str], examples: Sequence[Example]) -> list[float]:
        grids = [self.read(text) for text in texts]
        return [
            cell_share(g, e) if clues_kept(g, e) else 0.0
            for g, e in zip(grids, examples, strict=True)
        ]

    def _cells_released(self, texts: Sequence[str], examples: Sequence[Example]) -> list[float]:
        grids = [self._read_released(text) for text in texts]
        return [cell_share(g, e) for g, e in zip(grids, examples, strict=True)]

    def _solved(self, texts: Sequence[str], examples: Sequence[Example]) -> list[float]:
        grids = [self.read(text) for text in texts]
        return [float(solved(g, e)) for g, e in zip(grids, examples, strict=True)]

    @cached_property
    def _held_out(self) -> frozenset[str]:
        """Solutions that training must not see."""
        if self.test_file is not None:
            return frozenset(row["solution"] for row in read_puzzles(self.test_file))
        return held_out(self.split, self.split_seed)

    @cached_property
    def _training_grids(self) -> tuple[str, ...]:
        grids = training_grids(self.split, self._held_out)
        if not grids:
            raise TaskError(
                f"the solutions of {self.test_file} leave no grid to train on with "
                f"split {self.split!r}; try split: by_solution, or a smaller test file"
            )
        return grids

    @cached_property
    def _training_rows(self) -> list[dict[str, str]]:
        """Rows of `file` on the training side."""
        allowed = set(self._training_grids)
        rows = [row for row in read_puzzles(self.file or "") if row["solution"] in allowed]
        if not rows:
            raise TaskError(
                f"every solution of {self.file} is held out by split {self.split!r}"
                f"{f' and {self.test_file}' if self.test_file else ''}; nothing is left to train on"
            )
        return rows

    @cached_property
    def _test_rows(self) -> list[dict[str, str]] | None:
        """Rows of `test_file`, or of `file` on the test side; None = generated."""
        if self.test_file is not None:
            return read_puzzles(self.test_file)
        if self.file is None:
            return None
        rows = [row for row in read_puzzles(self.file) if row["solution"] in self._held_out]
        if not rows:
            raise TaskError(
                f"no solution of {self.file} is held out by split {self.split!r}, seed "
                f"{self.split_seed}; name a test_file"
            )
        return rows
