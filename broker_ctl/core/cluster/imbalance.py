"""Imbalance of the cluster, the one objective: whether a move reduces it.

Docs: imbalance-bounds. Imbalance is the largest load over the mean load; 1.0 is perfect.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.load import LoadVector


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Max over mean of the brokers' usage and of their bytes/s; None without load."""

    usage: float | None
    throughput: float | None


def max_over_mean(loads: Iterable[float]) -> float | None:
    """Max over mean; None without load, when nothing is balanced or unbalanced."""
    values = list(loads)
    total = fsum(values)
    return max(values) * len(values) / total if total > 0 else None


def imbalance(view: ClusterView) -> Imbalance:
    """The imbalance of the expected loads of all participating brokers."""
    carrying = [broker.expected for broker in view.brokers.values() if not broker.is_draining]
    return Imbalance(
        max_over_mean(load.usage_ratio for load in carrying),
        max_over_mean(load.throughput_bytes for load in carrying),
    )


def imbalance_text(value: float | None) -> str:
    """The value for people: ``1.07``, or a dash without load."""
    return "-" if value is None else f"{value:.2f}"


def mean_usage(view: ClusterView) -> float:
    """The mean usage of the participating brokers; 0 without any."""
    used = [each.expected.usage_ratio for each in view.brokers.values() if not each.is_draining]
    return fsum(used) / len(used) if used else 0.0


def improves(source: LoadVector, destination: LoadVector, moved: LoadVector) -> bool:
    """Return whether the move reduces the larger load of the two brokers.

    Compares usage, or throughput if no broker reports usage. Each such move makes the sorted loads
    of the cluster smaller, so under steady load no sequence of moves returns to its start: neither
    useless moves nor a ping-pong can be planned.
    """
    before, destination_before, gone = _measure(source, destination, moved)
    return gone > 0 and destination_before + gone < before


def is_harmless(source: LoadVector, destination: LoadVector, moved: LoadVector) -> bool:
    """Return whether neither broker has more load afterwards than the busier one had before.

    Sufficient for moves with another reason than load; bundles without load may also move so, but
    never to a busier broker.
    """
    before, destination_before, gone = _measure(source, destination, moved)
    return destination_before + gone <= before


def is_worth_it(
    reason: Reason, source: LoadVector, destination: LoadVector, moved: LoadVector
) -> bool:
    """Return whether a move for ``reason`` may be made.

    A bundle that joins a cold neighbour for a merge must do no harm; other moves must improve the
    pair. A bundle of a drained broker, or of one that a policy does not allow, must leave: any
    other place is better. So must one that brings its broker back within a hard limit, if it breaks
    none elsewhere. A move by the daily profile is made for all hours, together with the
    other moves of its plan: the load of this moment does not decide about it.
    """
    if reason.must_leave or reason.is_hard_limit or reason is Reason.PROFILE:
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
