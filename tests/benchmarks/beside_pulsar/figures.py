"""Figures from the owner nodes and the producers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from broker_ctl.core.model.names import Bundle
from tests.benchmarks.beside_pulsar.load import Flow, topics_of

# A send that began this long before the new owner was seen may have waited for it.
_BEFORE_S = 1.0
_AFTER_S = 3.0


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner node: whose it is, and the transaction that made it."""

    broker_id: str
    czxid: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All owner nodes at one moment; ``at_s`` on the monotonic clock."""

    at_s: float
    owners: Mapping[Bundle, Owner]


@dataclass(frozen=True, slots=True)
class Moved:
    """A bundle's new owner node, seen first at ``at_s`` and not yet at ``after_s``."""

    bundle: Bundle
    after_s: float
    at_s: float


# When a send began and how long it took, in seconds; the slow ones only.
Sends = Mapping[str, Sequence[tuple[float, float]]]


def imbalance(
    sample: Sample, sent: Sequence[Flow], brokers: Sequence[str], *, is_after: bool
) -> float | None:
    """Largest over mean throughput; None where no bundle has an owner.

    By what is sent and where it goes: a message has one size, so rates are throughput. What is
    on its way between two brokers is carried by neither.
    """
    carried = dict.fromkeys(brokers, 0.0)
    for flow in sent:
        owner = sample.owners.get(flow.bundle)
        if owner is not None:
            carried[owner.broker_id] += flow.rate(is_after=is_after)
    mean = sum(carried.values()) / len(carried)
    return max(carried.values()) / mean if mean else None


def moves(samples: Sequence[Sample]) -> list[Moved]:
    """Every owner node that took the place of another."""
    found = []
    latest: dict[Bundle, tuple[int, float]] = {}
    for sample in samples:
        for bundle, owner in sample.owners.items():
            known = latest.get(bundle)
            if known is not None and known[0] != owner.czxid:
                found.append(Moved(bundle, known[1], sample.at_s))
            latest[bundle] = owner.czxid, sample.at_s
    return found


def interruptions_s(moved: Sequence[Moved], sent: Sequence[Flow], slow: Sends) -> list[float]:
    """For each move and topic, the longest send around it; 0 where none was slow."""
    return [
        max(
            (
                took
                for at, took in slow.get(topic, ())
                if at <= move.at_s + _AFTER_S and at + took >= move.after_s - _BEFORE_S
            ),
            default=0.0,
        )
        for move in moved
        for topic in topics_of(sent, move.bundle)
    ]


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that ``part`` of all do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, ceil(part * len(ordered)) - 1)] if ordered else 0.0
