"""Counters of the balancer: of one term, or of all terms of a process."""

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_NEWEST: Final = 1024


class PlacementResult(StrEnum):
    """Result of a placement, in Pulsar's words.

    ``SUCCESS``: one was chosen. ``EMPTY``: no broker could receive. ``SKIP``: the earlier
    reservation is still valid.
    """

    SUCCESS = "Success"
    EMPTY = "Empty"
    SKIP = "Skip"


class PlacementLog:
    """Counts and times the placements of one term."""

    def __init__(self) -> None:
        self.results: Counter[PlacementResult] = Counter()
        self._newest_s: deque[float] = deque(maxlen=_NEWEST)

    def add(self, result: PlacementResult, took_s: float) -> None:
        """Count one placement; ``took_s`` in seconds."""
        self.results[result] += 1
        self._newest_s.append(took_s)

    @property
    def newest_s(self) -> tuple[float, ...]:
        """Durations of the newest placements in seconds, oldest first."""
        return tuple(self._newest_s)


@dataclass(frozen=True, slots=True)
class BalancerCounters:
    """An immutable value to export.

    Attributes:
        corrupt_reports: load reports that did not decode.
        relieved_brokers: number of brokers that bundles were moved from, each counted once per
            cycle.
        placements: number of placements by result.
        placement_s: durations of the newest placements in seconds.
    """

    corrupt_reports: int = 0
    relieved_brokers: int = 0
    placements: Counter[PlacementResult] = field(default_factory=Counter)
    placement_s: tuple[float, ...] = ()

    def __add__(self, later: "BalancerCounters") -> "BalancerCounters":
        return BalancerCounters(
            self.corrupt_reports + later.corrupt_reports,
            self.relieved_brokers + later.relieved_brokers,
            self.placements + later.placements,
            (*self.placement_s, *later.placement_s)[-_NEWEST:],
        )
