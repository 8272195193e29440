"""Instruments that are read off the surface's own parts."""

from collections import Counter as Counting
from collections.abc import Callable, Mapping

from broker_ctl.core.decisions import Split, Transfer
from broker_ctl.core.load import SystemUsage
from broker_ctl.core.ownership import BundleState
from broker_ctl.core.session import State as SessionState
from broker_ctl.instruments.declared import BundleInstruments, LeaderInstruments, SurfaceInstruments
from broker_ctl.instruments.kinds import Labels
from broker_ctl.managers.lookup import LookupStatistics
from broker_ctl.surface.bounds import Bound, Lanes
from broker_ctl.surface.parts import DecisionJournal, LoadReporter, Ownership, Parts

# States in which a broker has a bundle, or is about to.
_HELD = tuple(
    state for state in BundleState if state not in {BundleState.FREE, BundleState.DELETED}
)


def follow(parts: Parts, lanes: Lanes, lookups: Bound) -> None:
    """Show each part through its instrument."""
    instruments = parts.instruments
    _follow_lookups(instruments.surface, parts.lookup.statistics)
    _follow_bundles(instruments.bundles, parts.ownership, parts.reporter)
    _follow_decisions(instruments.leader, parts.journal)
    session, surface = instruments.session, instruments.surface
    session.state.follow(
        lambda: {(state,): float(state == parts.session_state()) for state in SessionState}
    )
    session.epoch.follow(lambda: parts.authority()[0])
    session.lease_remaining_ms.follow(lambda: parts.authority()[1])
    session.brokers.follow(lambda: len(parts.cluster.broker_ids()))
    session.is_leader.follow(lambda: {("loadbalance",): float(parts.desk() is not None)})
    surface.is_ready.follow(lambda: float(parts.readiness().is_ready))
    surface.in_flight.follow(
        lambda: {
            ("clients",): lanes.clients.in_flight,
            ("brokers",): lanes.brokers.in_flight,
            ("lookups",): lookups.in_flight,
        }
    )


def _follow_lookups(
    surface: SurfaceInstruments, statistics: Callable[[], LookupStatistics]
) -> None:
    surface.lookup_answers.follow(lambda: statistics().answers)
    surface.lookup_redirects.follow(lambda: statistics().redirects)
    surface.lookup_failures.follow(lambda: statistics().failures)
    surface.lookups_pending.follow(lambda: statistics().pending)

    def latencies() -> tuple[int, list[float]]:
        counts = statistics()
        ended = counts.answers + counts.redirects + counts.failures
        return ended, [latency_s * 1000 for latency_s in counts.recent_s]

    surface.lookup_ms.follow(latencies)


def _follow_bundles(
    bundles: BundleInstruments, ownership: Ownership, reporter: LoadReporter
) -> None:
    def owned() -> Mapping[Labels, float]:
        states = Counting(held.state for held in ownership.owned().values())
        return {(state,): states[state] for state in _HELD}

    def usage(percent: Callable[[SystemUsage], float]) -> Callable[[], Mapping[Labels, float]]:
        return lambda: {(ownership.urls.broker_id,): percent(reporter.current().load.usage)}

    bundles.owned.follow(owned)
    bundles.is_draining.follow(lambda: float(ownership.is_draining))
    bundles.cpu_usage.follow(usage(lambda one: one.cpu.percent))
    bundles.memory_usage.follow(usage(lambda one: one.memory.percent))
    bundles.direct_memory_usage.follow(usage(lambda one: one.direct_memory.percent))
    bundles.bandwidth_in_usage.follow(usage(lambda one: one.bandwidth_in.percent))
    bundles.bandwidth_out_usage.follow(usage(lambda one: one.bandwidth_out.percent))


def _follow_decisions(leader: LeaderInstruments, journal: DecisionJournal) -> None:
    def done(decided: str) -> float:
        counts = journal.counts()
        return sum(
            count
            for (kind, _, result), count in counts.items()
            if kind == decided and result == "done"
        )

    leader.decisions.follow(lambda: dict(journal.counts().items()))
    leader.unload_bundles.follow(lambda: done(Transfer.kind))
    leader.bundle_splits.follow(lambda: done(Split.kind))
