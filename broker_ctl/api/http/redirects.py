"""Sending a request on to another broker: 307, the same path as it was encoded."""

from collections.abc import Collection
from urllib.parse import urlencode

from aiohttp import web

from broker_ctl.api.http.responses import ApiError, ApiResponse
from broker_ctl.broker.lookup.interfaces import Cluster
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import NoController, NoLeader


def redirect(
    request: web.Request,
    urls: BrokerUrls,
    *,
    is_authoritative: bool | None = None,
    without: Collection[str] = (),
) -> web.Response:
    """The same request to another broker, by the scheme that it came with.

    ``is_authoritative`` is the new value of that parameter, None: as it came. Parameters in
    ``without`` are done with.

    Raises:
        ApiError: 412, the broker has no address of this scheme.
    """
    url = urls.web_url_tls if request.secure else urls.web_url
    if not url:
        raise ApiError(412, f"{urls.broker_id} has no {request.scheme} address")
    kept = [
        (key, value)
        for key, value in request.query.items()
        if key not in without and (key != "authoritative" or is_authoritative is None)
    ]
    # Most have no parameter but the last, which needs no encoding.
    query = [urlencode(kept)] if kept else []
    if is_authoritative is not None:
        query.append("authoritative=true" if is_authoritative else "authoritative=false")
    location = url.rstrip("/") + request.rel_url.raw_path
    if query:
        location += f"?{'&'.join(query)}"
    return ApiResponse(status=307, headers={"Location": location})


def redirect_to_leader(request: web.Request, cluster: Cluster, own_id: str) -> web.Response:
    """The same request to the leader, for a broker that does not lead.

    Raises:
        NoLeader: nobody is known to lead, or this broker is only just beginning to.
    """
    leader = cluster.leader()
    if leader is None or leader[0] == own_id:
        raise NoLeader("no broker leads at present")
    return _redirect_to(request, cluster, *leader)


def redirect_to_controller(
    request: web.Request, cluster: Cluster, own_id: str, controller: tuple[str, str] | None
) -> web.Response:
    """The same request to the controller: name and web address of its daemon.

    Raises:
        NoController: nobody is known to control, or this broker is only just beginning to.
    """
    if controller is None or controller[0] == own_id:
        raise NoController("nobody controls partitions at the moment")
    return _redirect_to(request, cluster, *controller)


def _redirect_to(
    request: web.Request, cluster: Cluster, broker_id: str, address: str
) -> web.Response:
    return redirect(request, cluster.urls_of(broker_id) or _urls_at(broker_id, address))


def _urls_at(broker_id: str, address: str) -> BrokerUrls:
    """Of a holder that is known by its seat alone, which has one address."""
    if address.startswith("https://"):
        return BrokerUrls(broker_id, web_url_tls=address)
    return BrokerUrls(broker_id, web_url=address)
