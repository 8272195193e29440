"""The traffic of a report: what is listed bundle by bundle, and what only counts in the totals.

A server closes a connection that sends more than jute.maxbuffer. A broker with more
bundles than a report holds lists the heaviest; those are the ones that are worth a decision.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.store.records.report_lines import line_bytes


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic that the data plane reported in one answer.

    Attributes:
        bundles: all of them, by their text.
        listed: lines of the report.
        unlisted: sum over the others.
    """

    bundles: frozenset[str] = frozenset()
    listed: Mapping[str, BundleStats] = field(default_factory=dict)
    unlisted: BundleStats = field(default_factory=BundleStats)

    @property
    def unlisted_bundles(self) -> int:
        """Number of bundles that did not fit."""
        return len(self.bundles) - len(self.listed)


def traffic_of(statistics: Mapping[Bundle, BundleStats], room_bytes: int) -> Traffic:
    """Sort out what fits into ``room_bytes``."""
    ranked = sorted(
        (-line.throughput, -line.msg_rate, str(bundle), line) for bundle, line in statistics.items()
    )
    listed: dict[str, BundleStats] = {}
    rest: list[BundleStats] = []
    for _, _, name, line in ranked:
        room_bytes -= line_bytes(name)
        # Nothing lighter is listed once something heavier was left out.
        if room_bytes >= 0:
            listed[name] = line
        else:
            rest.append(line)
    names = frozenset(name for _, _, name, _ in ranked)
    return Traffic(names, dict(sorted(listed.items())), BundleStats.total_of(rest))


def names_within(names: Collection[str], room_bytes: int) -> tuple[str, ...]:
    """Sorted, and as many as there is room for."""
    kept: list[str] = []
    for name in sorted(names):
        room_bytes -= len(name.encode()) + 3
        if room_bytes < 0:
            break
        kept.append(name)
    return tuple(kept)
