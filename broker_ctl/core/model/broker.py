"""Addresses of a broker."""

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
    """A broker's id and its addresses; an address that the broker does not have is None.

    ``broker_id`` is the advertised host and the web port, ``broker-1:8080``. Listeners are sorted
    by name, so that equal sets are equal values. With an admin address, the web addresses serve
    clients only.
    """

    broker_id: str
    web_url: str | None = None
    web_url_tls: str | None = None
    native_url: str | None = None
    native_url_tls: str | None = None
    listeners: tuple[AdvertisedListener, ...] = ()
    admin_url: str | None = None
    admin_url_tls: str | None = None

    @property
    def for_administration(self) -> tuple[str | None, str | None]:
        """Where operators and other brokers call it, in the clear and over TLS."""
        if self.admin_url or self.admin_url_tls:
            return self.admin_url, self.admin_url_tls
        return self.web_url, self.web_url_tls


@dataclass(frozen=True, slots=True)
class LookupUrls:
    """Addresses at which a daemon answers lookups of the binary protocol; a missing one is None.

    The broker process beside the daemon has other addresses, and does not answer lookups.
    """

    url: str | None = None
    url_tls: str | None = None
    listeners: tuple[AdvertisedListener, ...] = ()

    def at(self, listener_name: str) -> "LookupUrls":
        """The addresses for clients of a listener: its own if it has any."""
        for one in self.listeners:
            if one.name == listener_name and (one.native_url or one.native_url_tls):
                return LookupUrls(one.native_url, one.native_url_tls)
        return self


NO_LOOKUP_URLS: Final = LookupUrls()


def broker_id_of(url: str) -> str:
    """Return the broker id in a web URL: releases before the id was written need it."""
    return url.rpartition("://")[2].rstrip("/")
