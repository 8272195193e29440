"""The traffic of a report: what is listed bundle by bundle, and what only counts in the totals.

A server closes the connection of whoever sends more than jute.maxbuffer. A broker with more
bundles than a report holds lists the heaviest; those are the ones that are worth a decision.
"""

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.steps import Steps, batched
from broker_ctl.store.records.report_lines import line_bytes

_AT_ONCE: Final = 500
# Heaviest first: bytes/s, then messages/s, both negative; then by name.
_Ranked = tuple[float, float, str, BundleStats]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the data plane said at one moment.

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
        """How many found no room."""
        return len(self.bundles) - len(self.listed)


def traffic_in_steps(statistics: Mapping[Bundle, BundleStats], room_bytes: int) -> Steps[Traffic]:
    """Sort out what fits into ``room_bytes``, a few bundles at a time."""
    parts: list[list[_Ranked]] = []
    names: set[str] = set()
    for some in batched(statistics.items(), _AT_ONCE):
        part = [(-line.throughput, -line.msg_rate, str(bundle), line) for bundle, line in some]
        part.sort()
        names.update(name for _, _, name, _ in part)
        parts.append(part)
        yield
    listed: dict[str, BundleStats] = {}
    rest: list[BundleStats] = []
    sums: list[BundleStats] = []
    for ranked in batched(heapq.merge(*parts), _AT_ONCE):
        for _, _, name, line in ranked:
            room_bytes -= line_bytes(name)
            # Nothing lighter is listed once something heavier was left out.
            if room_bytes >= 0:
                listed[name] = line
            else:
                rest.append(line)
        sums.append(BundleStats.total_of(rest))
        rest.clear()
        yield
    in_order = {name: listed[name] for name in sorted(listed)}
    traffic = Traffic(frozenset(names), in_order, BundleStats.total_of(sums))
    yield
    return traffic


def names_within(names: Collection[str], room_bytes: int) -> tuple[str, ...]:
    """Sorted, and as many as there is room for."""
    kept: list[str] = []
    for name in sorted(names):
        room_bytes -= len(name.encode()) + 3
        if room_bytes < 0:
            break
        kept.append(name)
    return tuple(kept)
