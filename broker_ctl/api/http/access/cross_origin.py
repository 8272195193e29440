"""Requests of web pages, which a browser sends to any address that its machine reaches.

A page of another site can send requests that change something, and it can point a name of its own
at this server, so that the browser takes both for one site (docs: threat-ports). Browsers say the
name in ``Host``, and the page in ``Origin`` and ``Sec-Fetch-Site``; other clients send no page.
"""

from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from aiohttp import hdrs, web

from broker_ctl.api.http.access.authorization import RejectedRequests
from broker_ctl.api.http.responses import ApiError
from broker_ctl.clock import Clock

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SEC_FETCH_SITE: Final = "Sec-Fetch-Site"
# From a page of this server, or by the user's own hand.
# Paths of reads that change something: a lookup gives a bundle without an owner to a broker.
_LOOKUPS: Final = "/lookup/"
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_LOCALHOST: Final = "localhost"
_KNOWN_HOSTS: Final = 256
_MAX_TEXT_LENGTH: Final = 100


class CrossOriginProtection:
    """421 for a foreign host name, 403 for a change or a lookup by a page of another site.

    Args:
        names: host names of this server; IP addresses and localhost need none.
    """

    def __init__(self, names: Collection[str], clock: Clock) -> None:
        self._names = frozenset({_LOCALHOST, *map(_normalise, names)})
        self._rejected = RejectedRequests(clock)
        # Nearly all requests have one of a few values.
        self._is_own_host = lru_cache(maxsize=_KNOWN_HOSTS)(self._judge_host)

    def check(self, request: web.Request, route: str) -> None:
        """Let a request to a route pass, or refuse it.

        Raises:
            ApiError: 421, it names a foreign host; 403, a page of another site sent it.
        """
        headers = request.headers
        host = headers.get(hdrs.HOST, "")
        if host and not self._is_own_host(host):
            raise self._refuse(
                request,
                ApiError(
                    421,
                    f"{host[:_MAX_TEXT_LENGTH]!r} is not a name of this server: use its advertised "
                    "address or its IP address, or add the name to httpAllowedHosts",
                    kind="ForeignHost",
                ),
            )
        if request.method in _READS and not route.startswith(_LOOKUPS):
            return
        site, origin = headers.get(_SEC_FETCH_SITE, "none"), headers.get(hdrs.ORIGIN)
        if site in _OWN_SITES and (origin is None or _host_of(origin) == host.lower()):
            return
        page = (site if origin is None else origin)[:_MAX_TEXT_LENGTH]
        raise self._refuse(
            request,
            ApiError(
                403,
                f"a web page of another site ({page!r}) may not change anything here: use "
                "broker-ctl or another client that is not a browser",
                kind="CrossOrigin",
            ),
        )

    def _refuse(self, request: web.Request, error: ApiError) -> ApiError:
        self._rejected.record(request, error.status, str(error))
        return error

    def _judge_host(self, host: str) -> bool:
        name = _without_port(host)
        if _normalise(name) in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def _normalise(name: str) -> str:
    return name.lower().removesuffix(".")


def _without_port(host: str) -> str:
    """The host in ``host``, ``host:port``, ``[v6]`` or ``[v6]:port``."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _host_of(origin: str) -> str:
    """Host and port of an origin; of an opaque one, nothing that a host equals."""
    return origin.partition("://")[2].lower() or origin
