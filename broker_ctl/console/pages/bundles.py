"""Bundles: rings as strips, policies, topics with their traffic, replicated partitions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from broker_ctl.console.pages.frame import Row
from broker_ctl.console.render import percent

# The rings of namespaces as strips: width is the range of hashes, colour the load.


_HASHES: Final = 1 << 32
_WIDTH: Final = 1000.0
_LEVELS: Final = 5
_HOT: Final = 20


@dataclass(frozen=True, slots=True)
class BundleRowPiece:
    """One bundle of a strip; ``x`` and ``width`` are thousandths, ``heat`` is from 0 to 4."""

    row: Row
    x: float
    width: float
    heat: int


@dataclass(frozen=True, slots=True)
class Strip:
    """The ring of one namespace."""

    namespace: str
    pieces: tuple[BundleRowPiece, ...]


@dataclass(frozen=True, slots=True)
class Bundles:
    """The page.

    Attributes:
        hot: the bundles with the most traffic.
        chosen: the bundle that is shown in detail; empty: none.
        hidden: bundles that the leader's view leaves out, as they have the least traffic.
    """

    namespaces: tuple[str, ...]
    strips: tuple[Strip, ...]
    hot: tuple[Row, ...]
    chosen: str
    hidden: int


def bundles_page(cluster: Row | None, namespace: str, chosen: str) -> Bundles:
    """The page of the leader's view; ``namespace`` empty: all."""
    rows: list[Row] = [] if cluster is None else cluster["bundles"]
    by_namespace: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_namespace[row["bundle"].rpartition("/")[0]].append(row)
    wanted = [namespace] if namespace in by_namespace else sorted(by_namespace)[:_HOT]
    hottest = max((row["throughput_bytes_per_s"] for row in rows), default=0.0)
    shown = [row for row in rows if not namespace or row["bundle"].startswith(f"{namespace}/")]
    return Bundles(
        tuple(sorted(by_namespace)),
        tuple(Strip(name, _pieces(by_namespace[name], hottest)) for name in wanted),
        tuple(shown[:_HOT]),
        chosen,
        0 if cluster is None else cluster["bundle_count"] - len(rows),
    )


def _pieces(rows: Iterable[Row], hottest: float) -> tuple[BundleRowPiece, ...]:
    return tuple(_piece(row, hottest) for row in sorted(rows, key=lambda row: str(row["bundle"])))


def _piece(row: Row, hottest: float) -> BundleRowPiece:
    low, _, high = row["bundle"].rpartition("/")[2].partition("_")
    begin, end = int(low, 16), int(high, 16)
    share = row["throughput_bytes_per_s"] / hottest if hottest > 0 else 0.0
    heat = min(_LEVELS - 1, int(share * _LEVELS))
    x = begin / _HASHES * _WIDTH
    return BundleRowPiece(
        row, round(x, 2), round(max(1.0, (end - begin) / _HASHES * _WIDTH), 2), heat
    )


# The topics of one bundle with their traffic, and whether a split would help.


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


# Isolation policies and failure domains, with the live brokers that each covers now.


@dataclass(frozen=True, slots=True)
class Policy:
    """One isolation policy; ``primary`` and ``secondary`` are the live brokers that it has."""

    name: str
    row: Row
    primary: tuple[str, ...]
    secondary: tuple[str, ...]

    @property
    def least(self) -> str:
        """Primary brokers below which the secondary ones are used."""
        policy = self.row.get("auto_failover_policy") or {}
        return str((policy.get("parameters") or {}).get("min_limit", "0"))

    @property
    def is_short(self) -> bool:
        """Whether fewer primary brokers are alive than it asks for."""
        least = self.least
        return least.isdecimal() and len(self.primary) < int(least)


@dataclass(frozen=True, slots=True)
class PolicyRows:
    """The page; ``free`` are live brokers that no policy names."""

    policies: tuple[Policy, ...]
    free: tuple[str, ...]
    domains: Mapping[str, tuple[str, ...]]


def policies_page(
    policies: Mapping[str, Row], matches: Sequence[Row], domains: Mapping[str, Any]
) -> PolicyRows:
    """The page of the API's rows; a broker counts for the first policy that has it."""

    def covered(name: str, *, is_primary: bool) -> tuple[str, ...]:
        return tuple(
            row["brokerName"]
            for row in matches
            if row.get("policyName") == name and row["primary"] is is_primary
        )

    return PolicyRows(
        tuple(
            Policy(
                name,
                row,
                covered(name, is_primary=True),
                covered(name, is_primary=False),
            )
            for name, row in policies.items()
        ),
        tuple(row["brokerName"] for row in matches if not row.get("policyName")),
        {name: tuple(row.get("brokers", ())) for name, row in sorted(domains.items())},
    )


# Replicated partitions: what is wrong, and who leads how many.


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The page; the topics that have a problem come first."""

    row: Row
    topics: tuple[Row, ...]
    most_leaders: int


def partitions_page(row: Row, topics: Sequence[Row]) -> PartitionRows:
    """The page of the controller's overview and topics."""
    ordered = sorted(
        topics,
        key=lambda each: (
            -each["offline"],
            -each["under_min_isr"],
            -each["under_replicated"],
            each["topic"],
        ),
    )
    most = max([1, *(broker["leaders"] for broker in row["brokers"])])
    return PartitionRows(row, tuple(ordered), most)
