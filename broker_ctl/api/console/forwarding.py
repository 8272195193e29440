"""A client's requests to other brokers of the cluster, with the client's own credentials."""

from collections.abc import Callable, Mapping
from typing import Final

from broker_ctl.api.console.calls import Forward
from broker_ctl.api.http.dependencies import Cluster
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpReply, Sign
from broker_ctl.peer_http import PeerHttp, Source

_TIMEOUT_S: Final = 20.0

# HTTP to brokers at the addresses of their registrations, with these headers and no others.
PeersWith = Callable[[Sign], PeerHttp]


def forward_to_brokers(cluster: Cluster, peers_with: PeersWith) -> Forward:
    """Forwards to live brokers, at the addresses of their registrations only."""

    async def forward(
        method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpReply:
        broker, target = _broker_at(cluster, url)
        peers = peers_with(lambda *_: headers)
        return await peers.request(
            method, broker, target, Source.REGISTRATION, content=body, timeout_s=_TIMEOUT_S
        )

    return forward


def _broker_at(cluster: Cluster, url: str) -> tuple[BrokerUrls, str]:
    """The broker of an address, with the path and query of the request."""
    for broker_id in cluster.broker_ids():
        urls = cluster.urls_of(broker_id)
        known = () if urls is None else (*urls.for_administration, urls.web_url, urls.web_url_tls)
        for base in known:
            if urls is not None and base and url.startswith(base.rstrip("/") + "/"):
                return urls, url.removeprefix(base.rstrip("/"))
    raise HttpError("the broker that answers this is not registered")
