"""The traffic of a report: bundles that are listed, and those that only count in the totals.

A server closes a connection that sends more than jute.maxbuffer. If a broker has more bundles than
fit into a report, it lists the heaviest, which matter most for decisions.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.store.records.report_lines import line_bytes


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic from one answer of the data plane.

    Attributes:
        bundles: all bundles, by their text.
        listed: the lines of the report.
        unlisted: sum over the bundles that are not listed.
    """

    bundles: frozenset[str] = frozenset()
    listed: Mapping[str, BundleStats] = field(default_factory=dict)
    unlisted: BundleStats = field(default_factory=BundleStats)

    @property
    def unlisted_bundles(self) -> int:
        """Number of bundles that are not listed."""
        return len(self.bundles) - len(self.listed)


def traffic_of(statistics: Mapping[Bundle, BundleStats], room_bytes: int) -> Traffic:
    """Choose the bundles that fit into ``room_bytes``."""
    ranked = sorted(
        (-line.throughput, -line.msg_rate, str(bundle), line) for bundle, line in statistics.items()
    )
    listed: dict[str, BundleStats] = {}
    rest: list[BundleStats] = []
    for _, _, name, line in ranked:
        room_bytes -= line_bytes(name)
        # The list ends at the first bundle that does not fit, even if lighter ones would.
        if room_bytes >= 0:
            listed[name] = line
        else:
            rest.append(line)
    names = frozenset(name for _, _, name, _ in ranked)
    return Traffic(names, dict(sorted(listed.items())), BundleStats.total_of(rest))


def names_within(names: Collection[str], room_bytes: int) -> tuple[str, ...]:
    """Names in sorted order, as many as fit."""
    kept: list[str] = []
    for name in sorted(names):
        room_bytes -= len(name.encode()) + 3
        if room_bytes < 0:
            break
        kept.append(name)
    return tuple(kept)
