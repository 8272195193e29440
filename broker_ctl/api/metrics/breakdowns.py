"""Decisions under the labels of Pulsar's breakdown counters (docs: pulsar-metrics).

Pulsar's lists are closed and shorter: a reason without a counterpart is ``Unknown``. A move or a
split that a pause or a dry run held back was not attempted: the move is a ``Skip``; Pulsar has no
skipped splits.
"""

from collections.abc import Mapping
from typing import Final

from broker_ctl.core.cluster.decisions import Reason, Skip, Split, Transfer
from broker_ctl.instruments.kinds import Labels

# Decisions by kind, reason and result.
Counts = Mapping[tuple[str, str, str], int]

_UNKNOWN: Final = "Unknown"

MADE: Final[Mapping[str, str]] = {
    Reason.OVERLOADED: "Overloaded",
    Reason.UNDERLOADED_RECEIVER: "Underloaded",
    Reason.ADMIN: "Admin",
    Reason.DRAIN: "Admin",
}

SKIPPED: Final[Mapping[str, str]] = {
    # The cluster was not uneven enough, or not for long enough: one count in Pulsar.
    Reason.BELOW_THRESHOLD: "HitCount",
    Reason.HIT_COUNT: "HitCount",
    # No bundle of the broker may be moved.
    Reason.NO_BUNDLES: "NoBundles",
    Reason.SOLE_BUNDLE: "NoBundles",
    Reason.PINNED: "NoBundles",
    Reason.EXCLUDED: "NoBundles",
    Reason.COOLING_DOWN: "CoolDown",
    Reason.IN_GRACE: "CoolDown",
    Reason.STALE_REPORT: "OutDatedData",
    Reason.NO_LOAD_DATA: "NoLoadData",
    Reason.NOT_MEASURED: "NoLoadData",
    # No broker can or may receive the bundle.
    Reason.TOO_FEW_BROKERS: "NoBrokers",
    Reason.NO_BROKER: "NoBrokers",
    Reason.ISOLATION: "NoBrokers",
    Reason.TOPIC_KIND: "NoBrokers",
    Reason.ANTI_AFFINITY: "NoBrokers",
    Reason.EVEN_SPREAD: "NoBrokers",
    Reason.VERSION: "NoBrokers",
}

# Only splits and merges are skipped for these; all other skips count as moves that were not made.
OF_RESHAPING: Final = frozenset(
    {
        Reason.TOO_FEW_TOPICS,
        Reason.INDIVISIBLE,
        Reason.MAX_BUNDLES,
        Reason.MIN_BUNDLES,
        Reason.MERGED_TOO_LARGE,
    }
)

CUT: Final[Mapping[str, str]] = {
    Reason.TOPICS: "Topics",
    Reason.SESSIONS: "Sessions",
    Reason.MSG_RATE: "MsgRate",
    Reason.BANDWIDTH: "Bandwidth",
    Reason.ADMIN: "Admin",
}


def unloads(counts: Counts) -> Mapping[Labels, float]:
    """Moves by Pulsar's result and reason; each pair is there from the start, at 0."""
    totals: dict[Labels, float] = {
        **{("Success", word): 0 for word in (*MADE.values(), _UNKNOWN)},
        **{("Skip", word): 0 for word in (*SKIPPED.values(), _UNKNOWN)},
        ("Failure", _UNKNOWN): 0,
    }
    for (kind, reason, result), count in counts.items():
        if kind == Transfer.kind:
            totals[_move(reason, result)] += count
        elif kind == Skip.kind and reason not in OF_RESHAPING:
            totals["Skip", SKIPPED.get(reason, _UNKNOWN)] += count
    return totals


def _move(reason: str, result: str) -> Labels:
    match result:
        case "done":
            return "Success", MADE.get(reason, _UNKNOWN)
        case "failed":
            return "Failure", _UNKNOWN
        case _:
            return "Skip", _UNKNOWN


def splits(counts: Counts) -> Mapping[Labels, float]:
    """Splits by Pulsar's result and reason; each pair is there from the start, at 0."""
    totals: dict[Labels, float] = {
        **{("Success", word): 0 for word in CUT.values()},
        ("Failure", _UNKNOWN): 0,
    }
    for (kind, reason, result), count in counts.items():
        if kind != Split.kind:
            continue
        if result == "done":
            made = "Success", CUT.get(reason, _UNKNOWN)
            totals[made] = totals.get(made, 0) + count
        elif result == "failed":
            totals["Failure", _UNKNOWN] += count
    return totals
