"""Advertised listeners, as several payloads carry them."""

from collections.abc import Mapping
from typing import Any

from broker_ctl.core.model.broker import AdvertisedListener
from broker_ctl.store.records.fields import Fields, without_nulls


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
