"""What the Simple manager reads and writes (docs: pulsar-load-data, pulsar-simple-manager)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import BrokerLoad, ResourceQuota, SystemUsage
from broker_ctl.core.strategies.load_managers import SIMPLE
from broker_ctl.store.records.fields import Fields, without_nulls
from broker_ctl.store.records.load import (
    LocalBrokerData,
    decode_lines,
    decode_usage,
    encode_lines,
    encode_rates,
    encode_usage,
    join_report,
)

_REPORT_TYPE: Final = "LoadReport"
_ALLOCATED: Final = ("CPU", "Memory", "BandwidthIn", "BandwidthOut", "MsgRateIn", "MsgRateOut")
# Pulsar's leader fills these in its own copy of a report; brokers write zeros.
_ALLOCATIONS: Final = tuple(
    f"{kind}{what}" for kind in ("allocated", "preAllocated") for what in _ALLOCATED
)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """A broker's load report, as SimpleLoadManagerImpl writes it.

    Pulsar's ``msgThroughputIn`` and ``Out`` repeat the message rates by a slip; here they are
    bytes/s. Nobody reads them back.
    """

    urls: BrokerUrls
    load: BrokerLoad
    gains: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    is_underloaded: bool = False
    is_overloaded: bool = False
    persistent_topics: bool = True
    non_persistent_topics: bool = True
    protocols: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; a broker without a name has that of the node.

        Raises:
            CorruptRecord: it does not fit.
        """
        return cls.of_fields(Fields.of(path, data))

    @classmethod
    def of_fields(cls, fields: Fields) -> Self:
        """As `decode`, of a payload that is parsed already."""
        urls = BrokerUrls(
            fields.listed_broker_id("name"),
            fields.optional_text("webServiceUrl"),
            fields.optional_text("webServiceUrlTls"),
            fields.optional_text("pulsarServiceUrl"),
            fields.optional_text("pulsarServiceUrlTls"),
        )
        protocols = fields.child("protocols")
        return cls(
            urls,
            _decode_load(urls.broker_id, fields),
            fields.texts("bundleGains"),
            fields.texts("bundleLosses"),
            fields.flag("underLoaded", default=False),
            fields.flag("overLoaded", default=False),
            fields.flag("persistentTopicsEnabled", default=True),
            fields.flag("nonPersistentTopicsEnabled", default=True),
            {name: protocols.text(name) for name in protocols.values},
        )

    @property
    def load_manager(self) -> str:
        """Class of the load manager, as in `LocalBrokerData`."""
        return SIMPLE.class_name

    def encode(self) -> bytes:
        """The payload."""
        lines = encode_lines(self.load.bundles)
        return join_report(encode(self._head()), {"bundleStats": lines})

    def _head(self) -> Mapping[str, Any]:
        urls, load, usage = self.urls, self.load, encode_usage(self.load.usage)
        total = load.total
        return without_nulls(
            {
                "name": urls.broker_id,
                "webServiceUrl": urls.web_url,
                "webServiceUrlTls": urls.web_url_tls,
                "pulsarServiceUrl": urls.native_url,
                "pulsarServiceUrlTls": urls.native_url_tls,
                "persistentTopicsEnabled": self.persistent_topics,
                "nonPersistentTopicsEnabled": self.non_persistent_topics,
                "timestamp": load.updated_ms,
                **encode_rates(total),
                "numTopics": total.topics,
                "numConsumers": total.consumers,
                "numProducers": total.producers,
                "numBundles": load.bundle_count,
                "protocols": dict(self.protocols),
                "startTimestamp": load.started_ms,
                "systemResourceUsage": usage,
                "bundleGains": list(self.gains),
                "bundleLosses": list(self.losses),
                **dict.fromkeys(_ALLOCATIONS, 0.0),
                "loadReportType": _REPORT_TYPE,
                **usage,
                "lastUpdate": load.updated_ms,
                "underLoaded": self.is_underloaded,
                "overLoaded": self.is_overloaded,
            },
        )


def _decode_load(broker_id: str, fields: Fields) -> BrokerLoad:
    usage = fields.child("systemResourceUsage")
    lines, unlisted, unlisted_bundles = decode_lines(fields, "bundleStats")
    return BrokerLoad(
        broker_id,
        decode_usage(usage) if usage.values else SystemUsage(),
        lines,
        fields.count("timestamp"),
        fields.count("startTimestamp"),
        unlisted=unlisted,
        unlisted_bundles=unlisted_bundles,
    )


BrokerReport = LocalBrokerData | LoadReport


def decode_report(path: str, data: bytes) -> BrokerReport:
    """Either kind of report: ``underLoaded`` gives the Simple manager's away, as it does in Pulsar.

    Raises:
        CorruptRecord: it is neither.
    """
    fields = Fields.of(path, data)
    is_simple = fields.text("loadReportType", "") == _REPORT_TYPE or "underLoaded" in fields.values
    return LoadReport.of_fields(fields) if is_simple else LocalBrokerData.of_fields(fields)


def decode_quota(path: str, data: bytes) -> ResourceQuota:
    """A bundle's quota, or the default one.

    Raises:
        CorruptRecord: it does not fit.
    """
    fields = Fields.of(path, data)
    return ResourceQuota(
        fields.number("msgRateIn"),
        fields.number("msgRateOut"),
        fields.number("bandwidthIn"),
        fields.number("bandwidthOut"),
        fields.number("memory"),
        fields.flag("dynamic", default=True),
    )


def encode_quota(quota: ResourceQuota) -> bytes:
    """The payload."""
    return encode(
        {
            "msgRateIn": float(quota.msg_rate_in),
            "msgRateOut": float(quota.msg_rate_out),
            "bandwidthIn": float(quota.bandwidth_in_bytes),
            "bandwidthOut": float(quota.bandwidth_out_bytes),
            "memory": float(quota.memory_mib),
            "dynamic": quota.is_dynamic,
        }
    )


def decode_dynamic_setting(path: str, data: bytes) -> Mapping[str, str]:
    """A node below /loadbalance/settings: texts by key.

    Raises:
        CorruptRecord: it does not fit.
    """
    fields = Fields.of(path, data)
    return {name: fields.text(name) for name in fields.values}
