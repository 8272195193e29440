"""Decisions as counters that begin at 0.

Prometheus sees no increase where a series begins at 1: the first move for each reason would be
missing in graphs and alerts, and of a leader that moves little that is all of them. What the leader
does not carry out repeats in each cycle, and begins with the first.
"""

from collections.abc import Mapping
from itertools import product
from typing import Final

from broker_ctl.api.metrics.breakdowns import Counts
from broker_ctl.core.cluster.decisions import Assign, Merge, Reason, Split, Transfer
from broker_ctl.instruments.kinds import Labels

EXECUTED: Final[Mapping[str, tuple[Reason, ...]]] = {
    Assign.kind: (
        Reason.RESERVED,
        Reason.LEAST_MSG_RATE,
        Reason.ALL_OVERLOADED,
        Reason.LEAST_USAGE,
        Reason.ROUND_ROBIN,
        Reason.DRAWN,
        Reason.PINNED,
        Reason.ADMIN,
    ),
    Transfer.kind: (
        Reason.OVERLOADED,
        Reason.IMBALANCE,
        Reason.SURGE,
        Reason.UNDERLOADED_RECEIVER,
        Reason.DRAIN,
        Reason.SLOW_BROKER,
        Reason.ISOLATION,
        Reason.PROFILE,
        Reason.NEW_PART,
        Reason.COLD,
        Reason.RESERVED,
        Reason.ADMIN,
    ),
    Split.kind: (
        Reason.TOPICS,
        Reason.SESSIONS,
        Reason.MSG_RATE,
        Reason.BANDWIDTH,
        Reason.BROKER_SHARE,
        Reason.ADMIN,
    ),
    Merge.kind: (Reason.COLD, Reason.ADMIN),
}
_RESULTS: Final = ("done", "failed")
_AT_ZERO: Final[Mapping[Labels, float]] = {
    (kind, reason.value, result): 0
    for kind, reasons in EXECUTED.items()
    for reason, result in product(reasons, _RESULTS)
}


def from_zero(counts: Counts) -> Mapping[Labels, float]:
    """The counts; also those of decisions that may be carried out and have not been yet."""
    found = dict(_AT_ZERO)
    found.update(counts.items())
    return found
