"""Addresses of a broker's advertised listener."""

from broker_ctl.api.http.responses import ApiError
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls


def listener_of(urls: BrokerUrls, name: str | None) -> AdvertisedListener:
    """The broker's listener of that name; without a name, its own addresses.

    Raises:
        ApiError: 412, it has no such listener.
    """
    if not name:
        return AdvertisedListener(
            "", urls.native_url, urls.native_url_tls, urls.web_url, urls.web_url_tls
        )
    for listener in urls.listeners:
        if listener.name == name:
            return listener
    raise ApiError(412, f"{urls.broker_id} has no listener of that name")
