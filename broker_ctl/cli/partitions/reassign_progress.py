"""Progress of reassignments."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from broker_ctl.cli.partitions.params import (
    REASSIGNMENTS,
    THROTTLE,
    count_text,
    ids_text,
    partition_name,
)
from broker_ctl.cli.runtime.output import print_table
from broker_ctl.cli.runtime.progress import Stage, poll_until
from broker_ctl.cli.runtime.target import Target
from broker_ctl.cli.runtime.units import duration_text
from broker_ctl.core.model.load_vector import throughput_text

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

_COLUMNS: Final = ("partition", "target", "in sync", "not in sync yet")


class Pace:
    """Estimates the remaining time from the pace so far."""

    def __init__(self, total: int, began_s: float) -> None:
        self._total = total
        self._began_s = began_s

    def eta_s(self, left: int, now_s: float) -> float | None:
        """The remaining time; None until the first partition is done."""
        moved = self._total - left
        return left * (now_s - self._began_s) / moved if moved > 0 else None

    def stage(self, left: int, missing: int, now_s: float) -> Stage:
        """The progress to show."""
        # More reassignments may have been started meanwhile.
        moved = max(0, self._total - left)
        behind = f"{count_text(missing, 'replica')} not in sync yet"
        eta = duration_text(self.eta_s(left, now_s))
        words = f"{count_text(left, 'partition')} left, {behind}, ETA {eta}"
        return Stage(moved, self._total, words)


def print_reassignments(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a table of reassignments, and their throttle."""
    rows = list(rows)
    # A daemon of the release before has no throttle.
    rate = rows[0].get(THROTTLE) if rows else None
    print_table(
        "" if rate is None else f"throttled to {throughput_text(rate)} for each broker",
        _COLUMNS,
        (
            (partition_name(row), *(ids_text(row[name]) for name in ("replicas", "isr", "missing")))
            for row in rows
        ),
    )


def wait_reassigned(target: Target, partitions: Sequence[Mapping[str, Any]] | None) -> None:
    """Show the progress until these partitions are reassigned; None: all."""
    import time

    chosen = None if partitions is None else {partition_name(row) for row in partitions}

    async def follow(client: "Client") -> None:
        pace = Pace(len((await ask(client))["rows"]), time.monotonic())
        if chosen is not None:
            pace = Pace(len(chosen), time.monotonic())

        def stage_of(answer: Mapping[str, Any]) -> Stage:
            rows = answer["rows"]
            missing = sum(len(row["missing"]) for row in rows)
            return pace.stage(len(rows), missing, time.monotonic())

        await poll_until(target, lambda: ask(client), stage_of, lambda answer: not answer["rows"])

    async def ask(client: "Client") -> dict[str, Any]:
        rows = await client.get(REASSIGNMENTS)
        return {"rows": [row for row in rows if chosen is None or partition_name(row) in chosen]}

    target.run(follow)
