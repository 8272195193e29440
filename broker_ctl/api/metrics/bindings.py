"""Binds instruments to the components that their values are read from, decisions among them."""

from collections import Counter as Counting
from collections.abc import Callable, Mapping
from itertools import product
from typing import Final

from broker_ctl.api.http.dependencies import ControlDependencies, Dependencies
from broker_ctl.api.http.limits.requests import ConcurrencyLimit, RequestClasses
from broker_ctl.balancer.context.decisions import DecisionLog
from broker_ctl.broker.load.reporter import LoadReporter
from broker_ctl.broker.lookup.lookup import LookupStatistics
from broker_ctl.broker.ownership.ownership import Ownership
from broker_ctl.broker.policies.dynamic_config import DynamicConfiguration
from broker_ctl.core.cluster.decisions import Assign, Merge, Reason, Skip, Split, Transfer
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.load import BundleStats, SystemUsage, max_usage
from broker_ctl.instruments.balancing import BundleInstruments, TrafficInstruments
from broker_ctl.instruments.declared import ApiInstruments, Instruments
from broker_ctl.instruments.kinds import Gauge, Labels

# Decisions under the labels of Pulsar's breakdown counters (docs: pulsar-metrics).
#
# Pulsar's lists are closed and shorter: a reason without a counterpart is ``Unknown``. A move or
# a split that a pause or a dry run held back was not attempted: the move is a ``Skip``; Pulsar
# has no skipped splits.


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


# Decisions as counters that begin at 0.
#
# Prometheus sees no increase where a series begins at 1: the first move for each reason would be
# missing in graphs and alerts, and of a leader that moves little that is all of them. What the
# leader does not carry out repeats in each cycle, and begins with the first.


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


# Binds instruments to the components that their values are read from.


# States in which a broker owns a bundle, or is about to.
_HELD = tuple(
    state for state in BundleState if state not in {BundleState.FREE, BundleState.DELETED}
)


def bind_instruments(
    dependencies: Dependencies, request_classes: RequestClasses, lookups: ConcurrencyLimit
) -> None:
    """Bind the instruments of a broker."""
    instruments, services = dependencies.instruments, dependencies.services
    _bind_lookups(instruments.api, dependencies.lookup.statistics)
    _bind_bundles(instruments.bundles, services.ownership)
    _bind_usage(instruments.bundles, services.reporter, services.configuration)
    _bind_traffic(instruments.traffic, services.reporter, services.configuration)
    instruments.session.is_leader.bind(lambda: _led_elections(dependencies))
    in_flight = bind_common(dependencies, request_classes)
    instruments.api.in_flight.bind(lambda: {**in_flight(), ("lookups",): lookups.in_flight})


def bind_common(
    dependencies: ControlDependencies, request_classes: RequestClasses
) -> Callable[[], Mapping[Labels, float]]:
    """Bind what every process that may lead has; return the source of requests in progress."""
    instruments = dependencies.instruments
    _bind_decisions(instruments, dependencies.balancer.journal)
    session, api = instruments.session, instruments.api
    session.state.bind(
        lambda: {(state,): float(state == dependencies.session_state()) for state in SessionState}
    )
    session.epoch.bind(lambda: dependencies.authority()[0])
    session.lease_remaining_s.bind(lambda: dependencies.authority()[1] / 1000)
    session.brokers.bind(lambda: len(dependencies.cluster.broker_ids()))
    api.is_ready.bind(lambda: float(dependencies.readiness().is_ready))
    return lambda: {(name,): limit.in_flight for name, limit in request_classes.by_name.items()}


def _led_elections(dependencies: Dependencies) -> Mapping[Labels, float]:
    """Whether this broker leads each election; the controller's only where it takes part."""
    elections: dict[Labels, float] = {("loadbalance",): float(dependencies.admin() is not None)}
    if dependencies.partitions is not None:
        elections["controller",] = float(dependencies.partitions.admin() is not None)
    return elections


def _bind_lookups(api: ApiInstruments, statistics: Callable[[], LookupStatistics]) -> None:
    api.lookup_answers.bind(lambda: statistics().answers)
    api.lookup_redirects.bind(lambda: statistics().redirects)
    api.lookup_failures.bind(lambda: statistics().failures)
    api.lookups_pending.bind(lambda: statistics().pending)

    def latencies() -> tuple[int, list[float]]:
        counts = statistics()
        ended = counts.answers + counts.redirects + counts.failures
        return ended, [latency_s * 1000 for latency_s in counts.recent_s]

    api.lookup_ms.bind(latencies)


def _bind_bundles(bundles: BundleInstruments, ownership: Ownership) -> None:
    def states() -> Counting[str]:
        return Counting(held.state for held in ownership.owned().values())

    def owned() -> Mapping[Labels, float]:
        counts = states()
        return {(state,): counts[state] for state in _HELD}

    bundles.owned.bind(owned)
    bundles.loads_pending.bind(lambda: states()[BundleState.ASSIGNING])
    bundles.is_draining.bind(lambda: float(ownership.is_draining))


def _bind_usage(
    bundles: BundleInstruments, reporter: LoadReporter, configuration: DynamicConfiguration
) -> None:
    def usage(percent: Callable[[SystemUsage], float]) -> Callable[[], Mapping[Labels, float]]:
        def of_self() -> Mapping[Labels, float]:
            load = reporter.current().load
            return {(load.broker_id,): percent(load.usage)}

        return of_self

    def balanced() -> Mapping[Labels, float]:
        load, weights = reporter.current().load, configuration.current().load_report.weights
        return {(load.broker_id, "max"): max_usage(load.usage, weights)}

    bundles.cpu_usage.bind(usage(lambda one: one.cpu.percent))
    bundles.memory_usage.bind(usage(lambda one: one.memory.percent))
    bundles.direct_memory_usage.bind(usage(lambda one: one.direct_memory.percent))
    bundles.bandwidth_in_usage.bind(usage(lambda one: one.bandwidth_in.percent))
    bundles.bandwidth_out_usage.bind(usage(lambda one: one.bandwidth_out.percent))
    bundles.resource_usage.bind(balanced)


def _bind_traffic(
    traffic: TrafficInstruments, reporter: LoadReporter, configuration: DynamicConfiguration
) -> None:
    """Traffic of the bundles in the load report, only where the settings expose it."""

    def bind(gauge: Gauge, number: Callable[[BundleStats], float]) -> None:
        def of_each() -> Mapping[Labels, float]:
            if not configuration.current().load_report.is_exposing_bundles:
                return {}
            load = reporter.current().load
            return {(load.broker_id, name): number(line) for name, line in load.bundles.items()}

        gauge.bind(of_each)

    bind(traffic.msg_rate_in, lambda line: line.msg_rate_in)
    bind(traffic.msg_rate_out, lambda line: line.msg_rate_out)
    bind(traffic.topics, lambda line: line.topics)
    bind(traffic.consumers, lambda line: line.consumers)
    bind(traffic.producers, lambda line: line.producers)
    bind(traffic.msg_throughput_in, lambda line: line.msg_throughput_in)
    bind(traffic.msg_throughput_out, lambda line: line.msg_throughput_out)


def _bind_decisions(instruments: Instruments, journal: DecisionLog) -> None:
    def done(decision_kind: str) -> float:
        counts = journal.counts()
        return sum(
            count
            for (kind, _, result), count in counts.items()
            if kind == decision_kind and result == "done"
        )

    totals = instruments.totals
    instruments.leader.decisions.bind(lambda: from_zero(journal.counts()))
    totals.unload_bundles.bind(lambda: done(Transfer.kind))
    totals.unloads.bind(lambda: unloads(journal.counts()))
    totals.bundle_splits.bind(lambda: done(Split.kind))
    totals.splits.bind(lambda: splits(journal.counts()))
