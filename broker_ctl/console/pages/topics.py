"""The topics of one bundle with their traffic, and whether a split would help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from broker_ctl.console.formats import percent

_MOST: Final = 20
# A split helps little where one topic has more than this part of the traffic.
_ALONE: Final = 0.8


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic; ``share`` is its part of the bundle's throughput."""

    name: str
    throughput_bytes_per_s: float
    msg_per_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics with the most traffic, and how many there are in all.

    Attributes:
        verdict: whether a split helps, in one sentence; empty: nothing can be said.
    """

    rows: tuple[TopicRow, ...]
    count: int
    verdict: str


def topics_of(bundle: str, statistics: Mapping[str, Any] | None) -> Topics | None:
    """Of the owner's ``broker-stats/topics``; None: it does not have the bundle."""
    namespace, _, span = bundle.rpartition("/")
    of_bundle = ((statistics or {}).get(namespace) or {}).get(span)
    if not of_bundle:
        return None
    found = [
        (name, _both(row, "msgThroughput"), _both(row, "msgRate"))
        for topics in of_bundle.values()
        for name, row in topics.items()
    ]
    total = fsum(throughput for _, throughput, _ in found)
    rows = sorted(
        (
            TopicRow(name, throughput, rate, throughput / total if total > 0 else 0.0)
            for name, throughput, rate in found
        ),
        key=lambda row: (-row.share, row.name),
    )
    return Topics(tuple(rows[:_MOST]), len(rows), _verdict(rows))


def _both(row: Mapping[str, Any], name: str) -> float:
    return float(row.get(f"{name}In", 0.0)) + float(row.get(f"{name}Out", 0.0))


def _verdict(rows: Sequence[TopicRow]) -> str:
    if len(rows) == 1:
        return "One topic carries it all: no split helps, only a move."
    if rows and rows[0].share > _ALONE:
        share = percent(rows[0].share)
        return f"One topic carries {share} of it: a split only takes the others away from it."
    return ""
