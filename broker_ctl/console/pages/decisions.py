"""Decisions for a reader: what alike ones have in common is said once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from broker_ctl.console.pages.frame import Row

# Of more alike decisions than these, the number is shown first.
_FEW: Final = 2


@dataclass(frozen=True, slots=True)
class Group:
    """Decisions of one cycle with the same kind, result and reason; the newest first."""

    rows: Sequence[Row]

    @property
    def first(self) -> Row:
        """One of them: they are alike."""
        return self.rows[0]

    @property
    def is_folded(self) -> bool:
        """Whether their number is shown in their place."""
        return len(self.rows) > _FEW


def grouped(rows: Iterable[Row]) -> tuple[Group, ...]:
    """Neighbours that are alike are together; the order stays."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = tuple(row.get(name) for name in ("epoch", "cycle", "kind", "result", "reason"))
        groups.setdefault(key, []).append(row)
    return tuple(Group(tuple(each)) for each in groups.values())


def usual_s(rows: Iterable[Row]) -> float | None:
    """How long a move usually takes, by those that were done; None: none was."""
    took = [row["took_s"] for row in rows if row["kind"] == "transfer" and row["result"] == "done"]
    return median(took) if took else None
