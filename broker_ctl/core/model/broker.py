"""Where a broker is reached."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, order=True)
class AdvertisedListener:
    """One named listener of a broker."""

    name: str
    native_url: str | None = None
    native_url_tls: str | None = None
    web_url: str | None = None
    web_url_tls: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerUrls:
    """A broker's id and its addresses; a missing one is None.

    ``broker_id`` is the advertised host and the web port, ``broker-1:8080``. Listeners are held
    in the order of their names, so that equal sets are equal values.
    """

    broker_id: str
    web_url: str | None = None
    web_url_tls: str | None = None
    native_url: str | None = None
    native_url_tls: str | None = None
    listeners: tuple[AdvertisedListener, ...] = ()


@dataclass(frozen=True, slots=True)
class LookupUrls:
    """Where a daemon itself answers lookups of the binary protocol; a missing address is None.

    Not the addresses of the broker process beside it, which knows nothing of our lookups.
    """

    url: str | None = None
    url_tls: str | None = None


NO_LOOKUP_URLS: Final = LookupUrls()


def broker_id_of(url: str) -> str:
    """The broker id in a web URL, for payloads of releases that did not write the id."""
    return url.rpartition("://")[2].rstrip("/")
