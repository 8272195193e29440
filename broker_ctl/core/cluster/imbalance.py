"""How uneven the cluster is, and whether a move makes it more even: the one objective.

Docs: imbalance-bounds. Imbalance is the largest load over the mean load: 1.0 is
perfect.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load_vector import LoadVector


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Max over mean of the brokers' usage and of their bytes/s; None: there is no load."""

    usage: float | None
    throughput: float | None


def max_over_mean(loads: Iterable[float]) -> float | None:
    """None where there is no load: nothing is even or uneven then."""
    values = list(loads)
    total = fsum(values)
    return max(values) * len(values) / total if total > 0 else None


def imbalance(view: ClusterView) -> Imbalance:
    """Of the expected loads of all brokers that are there to carry some."""
    carrying = [broker.expected for broker in view.brokers.values() if not broker.is_draining]
    return Imbalance(
        max_over_mean(load.usage_ratio for load in carrying),
        max_over_mean(load.throughput_bytes for load in carrying),
    )


def imbalance_text(value: float | None) -> str:
    """For people: ``1.07``, or a dash where there is no load."""
    return "-" if value is None else f"{value:.2f}"


def mean_usage(view: ClusterView) -> float:
    """Of the brokers that are there to carry some; 0 where there are none."""
    used = [each.expected.usage_ratio for each in view.brokers.values() if not each.is_draining]
    return fsum(used) / len(used) if used else 0.0


def improves(source: LoadVector, destination: LoadVector, moved: LoadVector) -> bool:
    """Whether the larger load of the pair shrinks when ``moved`` goes from source to destination.

    Judged on usage, or on throughput where no broker reports usage. Each such move makes the sorted
    loads of the cluster smaller, so that under steady load no sequence of them comes back to where
    it began: neither a move for nothing nor a ping-pong can be planned.
    """
    before, destination_before, gone = _measure(source, destination, moved)
    return gone > 0 and destination_before + gone < before


def is_harmless(source: LoadVector, destination: LoadVector, moved: LoadVector) -> bool:
    """Whether neither broker has more, after the move, than the busier of the two had before.

    Enough for a move that is wanted for another reason than load; also what carries no load at all
    may move so, but never uphill.
    """
    before, destination_before, gone = _measure(source, destination, moved)
    return destination_before + gone <= before


def is_worth_it(
    reason: Reason, source: LoadVector, destination: LoadVector, moved: LoadVector
) -> bool:
    """Whether a move that is wanted for ``reason`` may be made.

    Next to a cold neighbour a bundle is in place, with as little load as it may have. On a drained
    broker it must not stay: anywhere else is better. A move by the daily profile is for all hours
    together with the others of its plan; this moment and this pair say nothing of it.
    """
    if reason.is_drain or reason is Reason.PROFILE:
        return True
    judge = is_harmless if reason is Reason.COLD else improves
    return judge(source, destination, moved)


def _measure(
    source: LoadVector, destination: LoadVector, moved: LoadVector
) -> tuple[float, float, float]:
    if source.usage_ratio > 0 or destination.usage_ratio > 0:
        gone = moved.usage_on(destination.size_ratio)
        return source.usage_ratio, destination.usage_ratio, gone
    return source.throughput_bytes, destination.throughput_bytes, moved.throughput_bytes
