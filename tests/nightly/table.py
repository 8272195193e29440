"""The page that keeps what long runs have found: one line a run, and the sums."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

PAGE: Final = Path(__file__).parents[2] / "docs/explanation/long-runs.md"
_ROW: Final = re.compile(
    r"^\| (\d{4}-\d\d-\d\d) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE
)
_SUMS: Final = re.compile(r"^In all: .*$", re.MULTILINE)
_COUNT: Final = re.compile(r"([\d,]+) (schedules|s of chaos)")
_SECONDS_PER_H: Final = 3600


@dataclass(frozen=True, slots=True)
class LongRun:
    """One run of a suite.

    Attributes:
        amount: a number of schedules, or of seconds of chaos.
        unit: which of them.
        found: how many schedules or invariants were violated, and in which seeds.
    """

    day: str
    commit: str
    amount: int
    unit: str
    seeds: str
    found: str

    @classmethod
    def of_schedules(cls, row: Mapping[str, Any], day: str, commit: str, first: int) -> Self:
        """``row`` is what `tests.deterministic --json` prints."""
        count = row["schedules"]
        seeds = [str(one["seed"]) for one in row["violations"]]
        found = f"{len(seeds)}: seeds {', '.join(seeds)}" if seeds else "0"
        return cls(day, commit, count, "schedules", f"{first} to {first + count - 1}", found)

    @classmethod
    def of_chaos(cls, row: Mapping[str, Any], day: str, commit: str) -> Self:
        """``row`` is what `tests.chaos --json` prints."""
        faults = sum(row["faults"].values())
        seeds = f"{row['seed']}, {faults} faults"
        found = str(len(row["violations"]))
        return cls(day, commit, round(row["seconds"]), "s of chaos", seeds, found)

    def to_line(self) -> str:
        """A row of the table."""
        run = f"{self.amount:,} {self.unit}"
        return f"| {self.day} | {self.commit} | {run} | {self.seeds} | {self.found} |"


def add(page: str, runs: Sequence[LongRun]) -> str:
    """The page with these runs behind the others, and with new sums."""
    last = list(_ROW.finditer(page))[-1:]
    end = (
        last[0].end()
        if last
        else page.index("|---|---|---|---|---|") + len("|---|---|---|---|---|")
    )
    lines = "".join(f"\n{run.to_line()}" for run in runs)
    page = page[:end] + lines + page[end:]
    return _SUMS.sub(sums(page), page, count=1)


def sums(page: str) -> str:
    """The sentence with the sums of all rows."""
    amounts = {"schedules": 0, "s of chaos": 0}
    violated = 0
    for row in _ROW.finditer(page):
        for amount, unit in _COUNT.findall(row[3]):
            amounts[unit] += int(amount.replace(",", ""))
        violated += int(row[5].partition(":")[0])
    hours = amounts["s of chaos"] / _SECONDS_PER_H
    found = f"{amounts['schedules']:,} schedules, {hours:.1f} hours of chaos"
    return f"In all: {found}, {violated} violations."
