"""Who owns a bundle, and who leads (docs: pulsar-ownership-payload, pulsar-leader-election)."""

from dataclasses import dataclass, replace
from typing import Self

from broker_ctl.codec import encode
from broker_ctl.core.model.broker import BrokerUrls, broker_id_of
from broker_ctl.store.records.fields import Fields, without_nulls
from broker_ctl.store.records.urls import decode_listeners, encode_listeners


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
