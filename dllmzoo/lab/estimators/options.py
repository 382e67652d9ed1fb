"""What the estimator lab is asked to measure."""

from __future__ import annotations

from dataclasses import dataclass

from dllmzoo.errors import UsageError

MEASURES = ("values", "ratios", "gradients", "selection")
TABLE = "table"
MOST_TABLE_SLOTS = 6
MOST_SLOTS = 16


@dataclass(frozen=True)
class Options:
    """Settings of one run of the estimator lab; the defaults take about a minute on one core.

    Args:
        model: `table`, an enumerable toy; or a trained model: a folder, a card or a hub id.
        estimators: `name`, `name:option=value,...`, or with steps chosen by a selector
            `name@selector:option=value`; one text may hold several, separated by commas. Empty =
            every registered likelihood with its defaults.
        views: numbers of forwards to try, each >= 1.
        draws: rows (an answer with masks of its own) behind every number; None = 8192 of the
            table, 2048 of a model. Standard errors fall as its square root.
        seed: of the table, the answers, the orders and the masks.
        slots: answer slots that are not given: 2 to 6 of the table, 2 to 16 of a model. All sets
            of revealed slots are enumerated up to 10, all answers up to 4096 of them.
        scale: standard deviation of the table's logits, > 0; more makes slots depend more.
        shift: root mean square of the exact log-ratio of the two nearby policies, nats, > 0.
        group: answers in one estimate of the policy gradient, >= 2.
        estimates: estimates of the policy gradient, >= 2; None = draws / group of the table (256
            by default), 12 of a model.
        measures: which parts to run, out of `values ratios gradients selection`.
        selectors: of the step-selection part, as in `estimators`, the number of steps being
            turned from 1 to T; names that are not registered are left out. Empty = every
            registered one.
        selector_of: the likelihood whose steps are selected.
        with_selectors: selectors that likelihoods of chosen steps are measured with.
        task: `name` or `name:option=value,...`; makes the prompt of a trained model.
        example: which held-out example it is, from 0.
        plugins: files or modules to import first.
    """

    model: str = TABLE
    estimators: tuple[str, ...] = ()
    views: tuple[int, ...] = (1, 2, 4, 8)
    draws: int | None = None
    seed: int = 0
    slots: int = 4
    scale: float = 1.0
    shift: float = 0.3
    group: int = 32
    estimates: int | None = None
    measures: tuple[str, ...] = MEASURES
    selectors: tuple[str, ...] = ()
    selector_of: str = "denoising_steps"
    with_selectors: tuple[str, ...] = ("all", "entropy_sampled")
    task: str = "sudoku"
    example: int = 0
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            UsageError: names the setting and what it may be.
        """
        most = MOST_TABLE_SLOTS if self.model == TABLE else MOST_SLOTS
        checks = (
            (not self.views or min(self.views) < 1, f"views {self.views}: each must be >= 1"),
            (self.draws is not None and self.draws < 64, f"draws {self.draws}: at least 64"),
            (not 2 <= self.slots <= most, f"slots {self.slots}: from 2 to {most} of this model"),
            (self.scale <= 0, f"scale {self.scale}: above 0"),
            (self.shift <= 0, f"shift {self.shift}: above 0 nats"),
            (self.group < 2, f"group {self.group}: at least 2 answers"),
            (
                self.estimates is not None and self.estimates < 2,
                f"estimates {self.estimates}: at least 2",
            ),
            (self.example < 0, f"example {self.example}: from 0"),
            (
                not self.measures or not set(self.measures) <= set(MEASURES),
                f"measures {', '.join(self.measures) or 'none'}: some of {', '.join(MEASURES)}",
            ),
            (
                self.group > self.num_draws,
                f"group {self.group}: no more than the {self.num_draws} draws",
            ),
        )
        for wrong, message in checks:
            if wrong:
                raise UsageError(f"estimator lab: {message}")

    @property
    def num_draws(self) -> int:
        """Rows behind every number."""
        return self.draws or (8192 if self.model == TABLE else 2048)

    @property
    def num_estimates(self) -> int:
        """Estimates of the policy gradient, as many as the rows allow."""
        wanted = self.estimates or (self.num_draws if self.model == TABLE else 12)
        return max(2, min(wanted, self.num_draws // self.group))
