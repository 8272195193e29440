"""Reports of foreign brokers, and bundles that no unload moves."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.attach.cluster_balancer import MANAGER, Samples, sum_of
from broker_ctl.attach.reader import ClusterReader
from broker_ctl.clock import Clock
from broker_ctl.codec import decode_object
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import BrokerLoad, BundleStats, ResourceUsage, SystemUsage
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.strategies.load_managers import EXTENSIBLE, MODULAR
from broker_ctl.errors import CorruptRecord, PeerRefused
from broker_ctl.store import paths
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.ownership import BrokerRecord

# Bundles that lost their owner and have none since, under the extensible load manager.
#
# That manager hands a bundle from state to state in its channel: assigning, releasing, splitting.
# One that stays in such a state is owned by no broker in between, and its clients wait. With the
# other managers a bundle without an owner waits for the next lookup, which is nothing to be
# shown.


# A hand-over takes a second or two; more than this is not usual even on a busy broker.
_USUAL_S: Final = 15.0


class _Lost(NamedTuple):
    last_owner: str
    since_s: float


class StuckBundles:
    """Compares looks at the owners."""

    def __init__(self) -> None:
        self._owned: Mapping[Bundle, str] = {}
        self._lost: dict[Bundle, _Lost] = {}

    def look(self, owned: Mapping[Bundle, str], now_s: float) -> None:
        """Take in who owns what now; a bundle that was split is there in its parts."""
        for bundle, owner in self._owned.items():
            if bundle not in owned:
                self._lost.setdefault(bundle, _Lost(owner, now_s))
        here: dict[object, list[Bundle]] = {}
        for bundle in owned:
            here.setdefault(bundle.namespace, []).append(bundle)
        self._lost = {
            bundle: lost
            for bundle, lost in self._lost.items()
            if not any(bundle.overlaps(other) for other in here.get(bundle.namespace, ()))
        }
        self._owned = owned

    def rows(self, now_s: float) -> list[dict[str, Any]]:
        """Those that have been without an owner for unusually long, the longest first."""
        late = sorted(
            (lost.since_s, str(bundle), lost.last_owner)
            for bundle, lost in self._lost.items()
            if now_s - lost.since_s > _USUAL_S
        )
        return [
            {"bundle": bundle, "last_owner": owner, "for_s": round(now_s - since_s, 1)}
            for since_s, bundle, owner in late
        ]


# Load reports of brokers, by their admin API.
#
# Brokers with the modular or the simple load manager answer with the report that they would
# write. Those with the extensible manager refuse that (docs: pulsar-extensible): their report is
# made of the statistics of their topics, the bundles that they own, and what they use by their
# own metrics.


LOAD_REPORT: Final = "broker-stats/load-report"
_MIB: Final = 1 << 20
_PERCENT: Final = 100.0
_RUN_BYTES: Final = 7


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """A broker's report as it would stand in its node.

    Attributes:
        run: identifies this run of the broker's process.
        manager: class name of its load manager.
    """

    data: bytes
    run: int
    urls: BrokerUrls
    manager: str


class LoadReports:
    """Gets reports; remembers what does not change in a run of a broker."""

    def __init__(self, admin: PulsarAdmin, reader: ClusterReader, clock: Clock) -> None:
        self._admin = admin
        self._reader = reader
        self._clock = clock
        # Processor seconds of a process, and when it had used them.
        self._processor: dict[str, tuple[float, float]] = {}

    async def report(self, urls: BrokerUrls, owned: Collection[Bundle]) -> ReportedLoad:
        """The report of a broker that owns these bundles.

        Raises:
            PeerUnreachable, PeerRefused: it does not answer, or not with a report.
        """
        broker_id = urls.broker_id
        manager = (await self._admin.running(broker_id)).get(MANAGER, MODULAR.class_name)
        if manager == EXTENSIBLE.class_name:
            return await self._measured(urls, owned)
        data = (await self._admin.ask(LOAD_REPORT, broker_id)).body
        try:
            record = BrokerRecord.decode(paths.load_report(broker_id), data)
            started_ms = int(decode_object(data).get("startTimestamp") or 0)
        except (CorruptRecord, TypeError, ValueError) as error:
            raise PeerRefused("MalformedAnswer", f"{LOAD_REPORT}: {error}") from error
        return ReportedLoad(data, run_of(broker_id, started_ms), record.urls, manager)

    def keep_only(self, broker_ids: Collection[str]) -> None:
        """Forget the brokers that are gone."""
        self._processor = {name: at for name, at in self._processor.items() if name in broker_ids}

    async def _measured(self, urls: BrokerUrls, owned: Collection[Bundle]) -> ReportedLoad:
        broker_id = urls.broker_id
        topics = await self._reader.topics(broker_id)
        samples = await self._reader.metrics(broker_id)
        version = await self._reader.version(broker_id)
        started_ms = round((sum_of(samples, "process_start_time_seconds") or 0.0) * 1000)
        measured = bundle_stats(topics)
        # What is being unloaded may have statistics a moment longer than an owner.
        lines = {str(bundle): measured.get(str(bundle), BundleStats()) for bundle in sorted(owned)}
        load = BrokerLoad(
            broker_id,
            self._usage(broker_id, samples),
            lines,
            self._clock.wall_ms(),
            started_ms,
            version,
        )
        record = LocalBrokerData(urls, load, load_manager=EXTENSIBLE.class_name)
        run = run_of(broker_id, started_ms)
        return ReportedLoad(record.encode(), run, urls, EXTENSIBLE.class_name)

    def _usage(self, broker_id: str, samples: Samples) -> SystemUsage:
        """What a broker uses: by its load manager's gauges, else by those of its process."""
        return SystemUsage(
            _gauge(samples, "pulsar_lb_cpu_usage") or self._processor_usage(broker_id, samples),
            _gauge(samples, "pulsar_lb_memory_usage")
            or _memory(
                sum_of(samples, "jvm_memory_bytes_used", area="heap"),
                sum_of(samples, "jvm_memory_bytes_max", area="heap"),
            ),
            _gauge(samples, "pulsar_lb_directMemory_usage")
            or _memory(
                sum_of(samples, "jvm_memory_direct_bytes_used"),
                sum_of(samples, "jvm_memory_direct_bytes_max"),
            ),
            _gauge(samples, "pulsar_lb_bandwidth_in_usage") or ResourceUsage(),
            _gauge(samples, "pulsar_lb_bandwidth_out_usage") or ResourceUsage(),
        )

    def _processor_usage(self, broker_id: str, samples: Samples) -> ResourceUsage:
        """Of one core, since the last report."""
        used_s, now_s = sum_of(samples, "process_cpu_seconds_total"), self._clock.now_s()
        if used_s is None:
            return ResourceUsage()
        before_s, then_s = self._processor.get(broker_id, (used_s, now_s))
        self._processor[broker_id] = used_s, now_s
        elapsed_s = now_s - then_s
        if elapsed_s <= 0 or used_s < before_s:
            return ResourceUsage(0.0, _PERCENT)
        return ResourceUsage((used_s - before_s) / elapsed_s * _PERCENT, _PERCENT)


def _gauge(samples: Samples, name: str) -> ResourceUsage | None:
    """A gauge in percent; one below zero was not measured."""
    percent = sum_of(samples, name)
    return None if percent is None or percent < 0 else ResourceUsage(percent, _PERCENT)


def _memory(used: float | None, limit: float | None) -> ResourceUsage:
    if used is None or limit is None or limit <= 0:
        return ResourceUsage()
    return ResourceUsage(used / _MIB, limit / _MIB)


def run_of(broker_id: str, started_ms: int) -> int:
    """Identity of a run of a broker, where no session shows one; never 0."""
    text = f"{broker_id} {started_ms}".encode()
    return int.from_bytes(blake2b(text, digest_size=_RUN_BYTES).digest(), "big") | 1


def bundle_stats(topics: Mapping[str, Any]) -> Mapping[str, BundleStats]:
    """Statistics by bundle, ``tenant/ns/range``, of what ``broker-stats/topics`` answers."""
    found: dict[str, BundleStats] = {}
    for namespace, bundles in topics.items():
        for range_, domains in _objects(bundles):
            lines = [
                _topic(topic) for _, named in _objects(domains) for _, topic in _objects(named)
            ]
            found[f"{namespace}/{range_}"] = BundleStats.total_of(lines)
    return found


def _objects(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items() if isinstance(item, dict))


def _topic(stats: Mapping[str, Any]) -> BundleStats:
    consumers = sum(
        len(subscription.get("consumers") or ())
        for _, subscription in _objects(stats.get("subscriptions"))
    )
    return BundleStats(
        _number(stats, "msgRateIn"),
        _number(stats, "msgRateOut"),
        _number(stats, "msgThroughputIn"),
        _number(stats, "msgThroughputOut"),
        1,
        len(stats.get("publishers") or ()),
        consumers,
    )


def _number(stats: Mapping[str, Any], name: str) -> float:
    value = stats.get(name)
    return float(value) if isinstance(value, int | float) and value >= 0 else 0.0
