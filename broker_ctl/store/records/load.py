"""What brokers report and what the leader keeps (reference: pulsar-load-management 3.1 to 3.4).

Java tells doubles from integers by the payload, so rates are written as floats throughout.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.broker import BrokerUrls
from broker_ctl.core.load import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BrokerLoad,
    BundleLoad,
    BundleStats,
    ResourceUsage,
    SystemUsage,
    TimeAverage,
    UsageWeights,
    max_usage,
)
from broker_ctl.store.path_rules import name_of
from broker_ctl.store.records.fields import Fields, without_nulls
from broker_ctl.store.records.urls import decode_listeners, encode_listeners

MODULAR_LOAD_MANAGER: Final = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
_REPORT_TYPE: Final = "LocalBrokerData"
# What Pulsar's maxResourceUsage counts: all but the heap.
_REPORTED_WEIGHTS: Final = UsageWeights(memory=0.0, direct_memory=1.0)


def _decode_resource(fields: Fields) -> ResourceUsage:
    return ResourceUsage(fields.number("usage"), fields.number("limit"))


def _encode_resource(usage: ResourceUsage) -> Mapping[str, float]:
    return {"usage": float(usage.usage), "limit": float(usage.limit)}


def _encode_rates(rates: BundleStats | TimeAverage) -> dict[str, Any]:
    return {
        "msgThroughputIn": float(rates.msg_throughput_in),
        "msgThroughputOut": float(rates.msg_throughput_out),
        "msgRateIn": float(rates.msg_rate_in),
        "msgRateOut": float(rates.msg_rate_out),
    }


def _decode_stats(fields: Fields) -> BundleStats:
    return BundleStats(
        fields.number("msgRateIn"),
        fields.number("msgRateOut"),
        fields.number("msgThroughputIn"),
        fields.number("msgThroughputOut"),
        fields.integer("topics", 0),
        fields.integer("producerCount", 0),
        fields.integer("consumerCount", 0),
        fields.integer("cacheSize", 0),
    )


def _encode_stats(stats: BundleStats) -> Mapping[str, Any]:
    return {
        **_encode_rates(stats),
        "consumerCount": stats.consumers,
        "producerCount": stats.producers,
        "topics": stats.topics,
        "cacheSize": stats.cache_size_bytes,
    }


@dataclass(frozen=True, slots=True)
class LocalBrokerData:
    """A broker's load report.

    ``gains`` and ``losses`` are the bundles, by their text, that came and went since the report
    before. The load manager's class name must be that of the peers: Pulsar 3.0 and later place
    nothing on a broker with another one.
    """

    urls: BrokerUrls
    load: BrokerLoad
    gains: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    load_manager: str = MODULAR_LOAD_MANAGER
    persistent_topics: bool = True
    non_persistent_topics: bool = True
    protocols: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; a broker id that was not written is the node's name.

        Raises:
            CorruptRecord: it does not fit, or is the report of another kind of load manager.
        """
        fields = Fields.of(path, data)
        if fields.text("loadReportType", _REPORT_TYPE) != _REPORT_TYPE:
            raise fields.corrupt("loadReportType", f"must be {_REPORT_TYPE}")
        urls = BrokerUrls(
            fields.text("brokerId", name_of(path)),
            fields.optional_text("webServiceUrl"),
            fields.optional_text("webServiceUrlTls"),
            fields.optional_text("pulsarServiceUrl"),
            fields.optional_text("pulsarServiceUrlTls"),
            decode_listeners(fields),
        )
        protocols = fields.child("protocols")
        return cls(
            urls,
            _decode_load(urls.broker_id, fields),
            fields.texts("lastBundleGains"),
            fields.texts("lastBundleLosses"),
            fields.text("loadManagerClassName", ""),
            fields.flag("persistentTopicsEnabled", default=True),
            fields.flag("nonPersistentTopicsEnabled", default=True),
            {name: protocols.text(name) for name in protocols.values},
        )

    def encode(self) -> bytes:
        """The payload."""
        urls = self.urls
        return encode(
            without_nulls(
                {
                    "brokerId": urls.broker_id,
                    "webServiceUrl": urls.web_url,
                    "webServiceUrlTls": urls.web_url_tls,
                    "pulsarServiceUrl": urls.native_url,
                    "pulsarServiceUrlTls": urls.native_url_tls,
                    "persistentTopicsEnabled": self.persistent_topics,
                    "nonPersistentTopicsEnabled": self.non_persistent_topics,
                    **_encode_load(self.load),
                    "lastBundleGains": list(self.gains),
                    "lastBundleLosses": list(self.losses),
                    "protocols": dict(self.protocols),
                    "advertisedListeners": encode_listeners(urls.listeners),
                    "loadManagerClassName": self.load_manager,
                    "loadReportType": _REPORT_TYPE,
                },
            ),
        )


def _decode_load(broker_id: str, fields: Fields) -> BrokerLoad:
    stats = fields.child("lastStats").children()
    return BrokerLoad(
        broker_id,
        SystemUsage(
            _decode_resource(fields.child("cpu")),
            _decode_resource(fields.child("memory")),
            _decode_resource(fields.child("directMemory")),
            _decode_resource(fields.child("bandwidthIn")),
            _decode_resource(fields.child("bandwidthOut")),
        ),
        {bundle: _decode_stats(traffic) for bundle, traffic in stats.items()},
        fields.integer("lastUpdate", 0),
        fields.integer("startTimestamp", 0),
        fields.text("brokerVersionString", ""),
    )


def _encode_load(load: BrokerLoad) -> Mapping[str, Any]:
    usage, total = load.usage, load.total
    return {
        "cpu": _encode_resource(usage.cpu),
        "memory": _encode_resource(usage.memory),
        "directMemory": _encode_resource(usage.direct_memory),
        "bandwidthIn": _encode_resource(usage.bandwidth_in),
        "bandwidthOut": _encode_resource(usage.bandwidth_out),
        "maxResourceUsage": max_usage(usage, _REPORTED_WEIGHTS),
        **_encode_rates(total),
        "lastUpdate": load.updated_ms,
        "startTimestamp": load.started_ms,
        "lastStats": {bundle: _encode_stats(stats) for bundle, stats in load.bundles.items()},
        "numTopics": total.topics,
        "numBundles": len(load.bundles),
        "numConsumers": total.consumers,
        "numProducers": total.producers,
        "bundles": list(load.bundles),
        "brokerVersionString": load.version,
    }


def _decode_average(fields: Fields, max_samples: int) -> TimeAverage:
    most, samples = fields.integer("maxSamples", max_samples), fields.integer("numSamples", 0)
    if most < 1 or samples < 0:
        raise fields.corrupt("numSamples", f"{samples} of at most {most} makes no average")
    return TimeAverage(
        most,
        # More samples than the maximum would weigh the next one wrongly.
        min(samples, most),
        fields.number("msgRateIn"),
        fields.number("msgRateOut"),
        fields.number("msgThroughputIn"),
        fields.number("msgThroughputOut"),
    )


def _encode_average(average: TimeAverage) -> Mapping[str, Any]:
    return {
        "maxSamples": average.max_samples,
        "numSamples": average.samples,
        **_encode_rates(average),
    }


@dataclass(frozen=True, slots=True)
class BundleData:
    """A bundle's averages, as the leader keeps them for the next leader."""

    load: BundleLoad

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        short = _decode_average(fields.child("shortTermData"), SHORT_SAMPLES)
        long = _decode_average(fields.child("longTermData"), LONG_SAMPLES)
        return cls(BundleLoad(short, long, fields.integer("topics", 0)))

    def encode(self) -> bytes:
        """The payload."""
        return encode(
            {
                "shortTermData": _encode_average(self.load.short),
                "longTermData": _encode_average(self.load.long),
                "topics": self.load.topics,
            },
        )


@dataclass(frozen=True, slots=True)
class TimeAverageBrokerData:
    """Sums of the averages of a broker's bundles, as the leader keeps them."""

    short_msg_throughput_in: float = 0.0
    short_msg_throughput_out: float = 0.0
    short_msg_rate_in: float = 0.0
    short_msg_rate_out: float = 0.0
    long_msg_throughput_in: float = 0.0
    long_msg_throughput_out: float = 0.0
    long_msg_rate_in: float = 0.0
    long_msg_rate_out: float = 0.0

    @classmethod
    def of(cls, loads: Iterable[BundleLoad]) -> Self:
        """Add up the averages of a broker's bundles."""
        held = tuple(loads)
        return cls(*_sums(load.short for load in held), *_sums(load.long for load in held))

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        return cls(*(fields.number(name) for name in _BROKER_AVERAGES.values()))

    def encode(self) -> bytes:
        """The payload."""
        return encode(
            {name: float(getattr(self, field)) for field, name in _BROKER_AVERAGES.items()},
        )


_BROKER_AVERAGES: Final = {
    f"{term}_msg_{measure}_{way}": f"{term}TermMsg{measure.title()}{way.title()}"
    for term in ("short", "long")
    for measure in ("throughput", "rate")
    for way in ("in", "out")
}


def _sums(averages: Iterable[TimeAverage]) -> tuple[float, float, float, float]:
    held = tuple(averages)
    return (
        sum(average.msg_throughput_in for average in held),
        sum(average.msg_throughput_out for average in held),
        sum(average.msg_rate_in for average in held),
        sum(average.msg_rate_out for average in held),
    )
