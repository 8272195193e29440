"""Redirects to another broker: 307, with the path encoded as received."""

from collections.abc import Collection
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from broker_ctl.api.http.access.route_rules import is_of_client
from broker_ctl.api.http.dependencies import Cluster
from broker_ctl.api.http.responses import ApiError, ApiResponse, may_share, repeated_redirect
from broker_ctl.api.http.routing import RoutedRequest
from broker_ctl.core.model.broker import AdvertisedListener, BrokerUrls
from broker_ctl.errors import NoController, NoLeader
from broker_ctl.peer_http import urls_at

# Addresses of a broker's advertised listener.


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


# Redirects to another broker: 307, with the path encoded as received.


PROOF: Final = "placementProof"
LISTENER: Final = "listenerName"
LISTENER_HEADER: Final = "X-Pulsar-ListenerName"
_OF_CHOICE: Final = frozenset({"authoritative", PROOF})


def redirect(
    request: web.Request,
    urls: BrokerUrls,
    *,
    is_authoritative: bool | None = None,
    proof: str = "",
    without: Collection[str] = (),
    is_repeated: bool = False,
) -> web.Response:
    """Redirect a request to another broker, with the same scheme.

    ``is_authoritative`` is the new value of that parameter, None: unchanged. With a new value,
    ``proof`` is that of its choice, and an earlier one is dropped. The parameters in ``without``
    are dropped. ``is_repeated``: the response may be one that other requests get too, which has its
    location in its bytes only.

    Raises:
        ApiError: 412, the broker has no address of this scheme.
    """
    plain, over_tls = _addresses(request, urls)
    url = over_tls if request.secure else plain
    if not url:
        raise ApiError(412, f"{urls.broker_id} has no {request.scheme} address")
    kept = [
        (key, value)
        for key, value in request.query.items()
        if key not in without and (key not in _OF_CHOICE or is_authoritative is None)
    ]
    if (listener := request.headers.get(LISTENER_HEADER)) and not request.query.get(LISTENER):
        # Clients do not send the header again where they are sent to another broker.
        kept = [(key, value) for key, value in kept if key != LISTENER] + [(LISTENER, listener)]
    # Most requests have only those two, which need no encoding.
    query = [urlencode(kept)] if kept else []
    if is_authoritative is not None:
        query.append("authoritative=true" if is_authoritative else "authoritative=false")
    if proof:
        query.append(f"{PROOF}={proof}")
    address, text = url.rstrip("/"), f"?{'&'.join(query)}" if query else ""
    if is_repeated and not kept and not proof and may_share(request):
        return repeated_redirect(address, text)
    location = address + request.rel_url.raw_path + text
    return ApiResponse(status=307, headers={"Location": location})


def redirect_to_leader(request: web.Request, cluster: Cluster, own_id: str) -> web.Response:
    """Redirect to the leader, at a broker that does not lead.

    Raises:
        NoLeader: no leader is known, or this broker's own term is just beginning.
    """
    leader = cluster.leader()
    if leader is None or leader[0] == own_id:
        raise NoLeader("no broker leads at present")
    return redirect_to_broker(request, cluster, urls_at(*leader))


def redirect_to_controller(
    request: web.Request, cluster: Cluster, own_id: str, controller: tuple[str, str] | None
) -> web.Response:
    """Redirect to the controller, given by name and web address of its daemon.

    Raises:
        NoController: no controller is known, or this broker's own term is just beginning.
    """
    if controller is None or controller[0] == own_id:
        raise NoController("no broker is the controller at present")
    return redirect_to_broker(request, cluster, urls_at(*controller))


def redirect_to_broker(
    request: web.Request, cluster: Cluster, urls: BrokerUrls, **options: Any
) -> web.Response:
    """Redirect to a broker of this cluster, whose registration has more addresses than ``urls``.

    ``options`` and errors are those of `redirect`.
    """
    return redirect(request, cluster.urls_of(urls.broker_id) or urls, **options)


def _addresses(request: web.Request, urls: BrokerUrls) -> tuple[str | None, str | None]:
    """The addresses of a broker for requests of this kind, in the clear and over TLS."""
    assert isinstance(request, RoutedRequest)
    if request.is_at_admin_port or not is_of_client(request):
        return urls.for_administration
    return urls.web_url, urls.web_url_tls
