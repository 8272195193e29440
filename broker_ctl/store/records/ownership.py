"""Who owns a bundle, and who leads, in each form of Pulsar (docs: pulsar-ownership-payload)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls, broker_id_of
from broker_ctl.core.strategies.load_managers import EXTENSIBLE, MODULAR, SIMPLE
from broker_ctl.store.records.fields import Fields, without_nulls

# Advertised listeners, as several payloads carry them.


def decode_listeners(
    fields: Fields, key: str = "advertisedListeners"
) -> tuple[AdvertisedListener, ...]:
    """Read the listeners in a field."""
    named = fields.child(key).children()
    return tuple(
        AdvertisedListener(
            name,
            listener.optional_text("brokerServiceUrl"),
            listener.optional_text("brokerServiceUrlTls"),
            listener.optional_text("brokerHttpUrl"),
            listener.optional_text("brokerHttpsUrl"),
        )
        for name, listener in sorted(named.items())
    )


def encode_listeners(listeners: tuple[AdvertisedListener, ...]) -> Mapping[str, Any]:
    """The value of such a field."""
    return {
        listener.name: without_nulls(
            {
                "brokerServiceUrl": listener.native_url,
                "brokerServiceUrlTls": listener.native_url_tls,
                "brokerHttpUrl": listener.web_url,
                "brokerHttpsUrl": listener.web_url_tls,
            },
        )
        for listener in listeners
    }


# Who owns a bundle under the extensible manager (docs: pulsar-extensible).


# In these states the source broker, which unloads or splits the bundle, still serves it.
_AT_SOURCE: Final = frozenset({"Releasing", "Splitting"})
_OWNED: Final = "Owned"


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """A bundle's state; ``owner`` is None while no broker serves it."""

    state: str
    owner: str | None

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        state = fields.text("state")
        owner = None
        if state == _OWNED:
            owner = fields.optional_text("dstBroker")
        elif state in _AT_SOURCE:
            owner = fields.optional_text("sourceBroker")
        return cls(state, owner)


# Who owns a bundle, and who leads (docs: pulsar-ownership-payload, pulsar-leader-election).


@dataclass(frozen=True, slots=True)
class OwnerNode:
    """An owner node: whose it is; ``token`` is its czxid."""

    urls: BrokerUrls
    token: int


@dataclass(frozen=True, slots=True, eq=False)
class NamespaceEphemeralData:
    """The owner of a bundle.

    Two records are equal where all but the broker id is: some releases do not write it.
    """

    urls: BrokerUrls
    is_disabled: bool = False

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; a broker id that was not written is taken from the web URL.

        Raises:
            CorruptRecord: it does not fit, or names no broker.
        """
        fields = Fields.of(path, data)
        web_url, web_url_tls = fields.optional_text("httpUrl"), fields.optional_text("httpUrlTls")
        derived = broker_id_of(web_url or web_url_tls or "")
        if not derived and "brokerId" not in fields.values:
            raise fields.corrupt("brokerId", "missing, and so is httpUrl")
        urls = BrokerUrls(
            fields.broker_id("brokerId", derived),
            web_url,
            web_url_tls,
            fields.optional_text("nativeUrl"),
            fields.optional_text("nativeUrlTls"),
            decode_listeners(fields),
        )
        return cls(urls, fields.flag("disabled", default=False))

    def encode(self) -> bytes:
        """The payload."""
        urls = self.urls
        return encode(
            without_nulls(
                {
                    "brokerId": urls.broker_id,
                    "nativeUrl": urls.native_url,
                    "nativeUrlTls": urls.native_url_tls,
                    "httpUrl": urls.web_url,
                    "httpUrlTls": urls.web_url_tls,
                    "disabled": self.is_disabled,
                    "advertisedListeners": encode_listeners(urls.listeners),
                },
            ),
        )

    def _compared(self) -> tuple[BrokerUrls, bool]:
        return replace(self.urls, broker_id=""), self.is_disabled

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamespaceEphemeralData):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())


@dataclass(frozen=True, slots=True)
class LeaderBroker:
    """The elected broker. ``service_url``, its web address, is all that old releases write."""

    broker_id: str
    service_url: str

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; a broker id that was not written is taken from the web URL.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        service_url = fields.text("serviceUrl")
        return cls(fields.broker_id("brokerId", broker_id_of(service_url)), service_url)

    def encode(self) -> bytes:
        """The payload."""
        return encode({"brokerId": self.broker_id, "serviceUrl": self.service_url})


# Registrations of brokers without a daemon of ours, for each load manager of Pulsar.
#
# Three managers write three records to the same place: LocalBrokerData (modular), LoadReport
# (simple) and BrokerLookupData (extensible). Only identity and addresses are read; what the
# first two say of the load is decoded elsewhere (docs: pulsar-load-data, pulsar-extensible).


_SIMPLE_TYPE: Final = "LoadReport"
_MODULAR_TYPE: Final = "LocalBrokerData"


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A registered broker.

    Attributes:
        manager: class name of its load manager.
        version: of Pulsar; empty if the registration lacks it.
        has_load: whether the registration is a load report, too.
    """

    urls: BrokerUrls
    manager: str
    version: str
    has_load: bool

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload of any of the three kinds; a broker id not written is the node's name.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        shape = _manager_by_shape(fields)
        id_field = "name" if shape == SIMPLE.class_name else "brokerId"
        urls = BrokerUrls(
            fields.listed_broker_id(id_field),
            fields.optional_text("webServiceUrl"),
            fields.optional_text("webServiceUrlTls"),
            fields.optional_text("pulsarServiceUrl"),
            fields.optional_text("pulsarServiceUrlTls"),
            decode_listeners(fields),
        )
        version = fields.text("brokerVersionString", fields.text("brokerVersion", ""))
        manager = fields.text("loadManagerClassName", shape)
        return cls(urls, manager, version, has_load=shape != EXTENSIBLE.class_name)


def _manager_by_shape(fields: Fields) -> str:
    """Brokers before 3.0 do not write the class; ``underLoaded`` gives the simple one away."""
    kind = fields.text("loadReportType", "")
    if kind == _SIMPLE_TYPE or "underLoaded" in fields.values:
        return SIMPLE.class_name
    if kind == _MODULAR_TYPE or "lastStats" in fields.values:
        return MODULAR.class_name
    return EXTENSIBLE.class_name
