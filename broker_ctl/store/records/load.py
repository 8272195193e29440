"""What brokers report and what the leader keeps (docs: pulsar-load-data)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import (
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
from broker_ctl.core.strategies.load_managers import MODULAR
from broker_ctl.store.records.fields import Fields, without_nulls
from broker_ctl.store.records.ownership import decode_listeners, encode_listeners

# The lines of a load report, one a bundle: read, and written a few at a time.
#
# They are nearly all of a report, and the part that grows with the number of bundles: a broker of
# 10,000 bundles would block its event loop while it writes megabytes at once.


# The name is written twice, in the statistics and in the list of bundles, with quotes, colon and
# commas; the rest is eight fields, four of them doubles of at most 24 characters and four integers
# of at most 20.
_NAMES_BYTES: Final = 8
_FIELDS_BYTES: Final = 320


def line_bytes(bundle: str) -> int:
    """Upper bound on the bytes of a bundle in a report."""
    return 2 * len(bundle.encode()) + _NAMES_BYTES + _FIELDS_BYTES


def encode_rates(rates: BundleStats | TimeAverage) -> dict[str, Any]:
    """Java distinguishes doubles from integers by the payload, so rates are always floats."""
    return {
        "msgThroughputIn": float(rates.msg_throughput_in),
        "msgThroughputOut": float(rates.msg_throughput_out),
        "msgRateIn": float(rates.msg_rate_in),
        "msgRateOut": float(rates.msg_rate_out),
    }


def _encode_stats(stats: BundleStats) -> Mapping[str, Any]:
    return {
        **encode_rates(stats),
        "consumerCount": stats.consumers,
        "producerCount": stats.producers,
        "topics": stats.topics,
        "cacheSize": stats.cache_size_bytes,
    }


def _decode_stats(fields: Fields) -> BundleStats:
    return BundleStats(
        fields.number("msgRateIn"),
        fields.number("msgRateOut"),
        fields.number("msgThroughputIn"),
        fields.number("msgThroughputOut"),
        fields.count("topics"),
        fields.count("producerCount"),
        fields.count("consumerCount"),
        fields.count("cacheSize"),
    )


def encode_lines(bundles: Mapping[str, BundleStats]) -> bytes:
    """A JSON object of the statistics by bundle."""
    return encode({bundle: _encode_stats(stats) for bundle, stats in bundles.items()})


def join_report(head: bytes, parts: Mapping[str, bytes]) -> bytes:
    """A JSON object with more fields, whose values are JSON already."""
    fields = [encode(name) + b":" + value for name, value in parts.items()]
    return b",".join([head[:-1], *fields]) + b"}"


def decode_lines(fields: Fields, name: str) -> tuple[dict[str, BundleStats], BundleStats, int]:
    """The lines of a report.

    Also the sum and the number of the bundles that were left out to bound its size.
    """
    parent = fields.child(name)
    lines = {bundle: _decode_stats(parent.child(bundle)) for bundle in parent.values}
    unlisted = max(0, fields.count("numBundles") - len(lines))
    return lines, _rest(fields, lines) if unlisted else BundleStats(), unlisted


def _rest(fields: Fields, lines: Mapping[str, BundleStats]) -> BundleStats:
    """The part of a report's totals that its lines do not account for."""
    listed = BundleStats.total_of(lines.values())
    return BundleStats(
        max(0.0, fields.number("msgRateIn") - listed.msg_rate_in),
        max(0.0, fields.number("msgRateOut") - listed.msg_rate_out),
        max(0.0, fields.number("msgThroughputIn") - listed.msg_throughput_in),
        max(0.0, fields.number("msgThroughputOut") - listed.msg_throughput_out),
        max(0, fields.count("numTopics") - listed.topics),
        max(0, fields.count("numProducers") - listed.producers),
        max(0, fields.count("numConsumers") - listed.consumers),
    )


# What brokers report and what the leader keeps (docs: pulsar-load-data).
#
# Java distinguishes doubles from integers by the payload, so rates are always written as floats.


_REPORT_TYPE: Final = "LocalBrokerData"
# What Pulsar's maxResourceUsage counts: all but the heap.
_REPORTED_WEIGHTS: Final = UsageWeights(memory=0.0, direct_memory=1.0)


def _decode_resource(fields: Fields) -> ResourceUsage:
    return ResourceUsage(fields.number("usage"), fields.number("limit"))


def _encode_resource(usage: ResourceUsage) -> Mapping[str, float]:
    return {"usage": float(usage.usage), "limit": float(usage.limit)}


def decode_usage(fields: Fields) -> SystemUsage:
    """What a broker uses, out of the object that has its resources."""
    return SystemUsage(
        _decode_resource(fields.child("cpu")),
        _decode_resource(fields.child("memory")),
        _decode_resource(fields.child("directMemory")),
        _decode_resource(fields.child("bandwidthIn")),
        _decode_resource(fields.child("bandwidthOut")),
    )


def encode_usage(usage: SystemUsage) -> dict[str, Any]:
    """One field for each resource."""
    return {
        "cpu": _encode_resource(usage.cpu),
        "memory": _encode_resource(usage.memory),
        "directMemory": _encode_resource(usage.direct_memory),
        "bandwidthIn": _encode_resource(usage.bandwidth_in),
        "bandwidthOut": _encode_resource(usage.bandwidth_out),
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
    load_manager: str = MODULAR.class_name
    persistent_topics: bool = True
    non_persistent_topics: bool = True
    protocols: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; a broker id that was not written is the node's name.

        Raises:
            CorruptRecord: it does not fit, or is the report of another kind of load manager.
        """
        return cls.of_fields(Fields.of(path, data))

    @classmethod
    def of_fields(cls, fields: Fields) -> Self:
        """As `decode`, of a payload that is parsed already."""
        if fields.text("loadReportType", _REPORT_TYPE) != _REPORT_TYPE:
            raise fields.corrupt("loadReportType", f"must be {_REPORT_TYPE}")
        urls = BrokerUrls(
            fields.listed_broker_id("brokerId"),
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
        lines = encode_lines(self.load.bundles)
        names = encode(list(self.load.bundles))
        return join_report(encode(self._head()), {"lastStats": lines, "bundles": names})

    def _head(self) -> Mapping[str, Any]:
        urls, load = self.urls, self.load
        total = load.total
        return without_nulls(
            {
                "brokerId": urls.broker_id,
                "webServiceUrl": urls.web_url,
                "webServiceUrlTls": urls.web_url_tls,
                "pulsarServiceUrl": urls.native_url,
                "pulsarServiceUrlTls": urls.native_url_tls,
                "persistentTopicsEnabled": self.persistent_topics,
                "nonPersistentTopicsEnabled": self.non_persistent_topics,
                **encode_usage(load.usage),
                "maxResourceUsage": max_usage(load.usage, _REPORTED_WEIGHTS),
                **encode_rates(total),
                "lastUpdate": load.updated_ms,
                "startTimestamp": load.started_ms,
                "numTopics": total.topics,
                "numBundles": load.bundle_count,
                "numConsumers": total.consumers,
                "numProducers": total.producers,
                "brokerVersionString": load.version,
                "lastBundleGains": list(self.gains),
                "lastBundleLosses": list(self.losses),
                "protocols": dict(self.protocols),
                "advertisedListeners": encode_listeners(urls.listeners),
                "loadManagerClassName": self.load_manager,
                "loadReportType": _REPORT_TYPE,
            },
        )


def _decode_load(broker_id: str, fields: Fields) -> BrokerLoad:
    lines, unlisted, unlisted_bundles = decode_lines(fields, "lastStats")
    return BrokerLoad(
        broker_id,
        decode_usage(fields),
        lines,
        fields.count("lastUpdate"),
        fields.count("startTimestamp"),
        fields.text("brokerVersionString", ""),
        unlisted,
        unlisted_bundles,
    )


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
        # Java's is a whole number; a part of a sample counts as one.
        "numSamples": ceil(average.samples),
        **encode_rates(average),
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
        return cls(BundleLoad(short, long, fields.count("topics")))

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
