"""A client's requests to other brokers of the cluster, with the client's own credentials.

A client that can write to ZooKeeper can name an address there. A token goes only to brokers that
prove themselves (docs: threat-peers).
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import hdrs

from broker_ctl.api.console.calls import Forward
from broker_ctl.api.http.dependencies import ClientForwarding, Cluster
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpReply
from broker_ctl.peer_http import Source

_TIMEOUT_S: Final = 20.0


def forward_to_brokers(cluster: Cluster, forwarding: ClientForwarding) -> Forward:
    """Forwards to live brokers, at the addresses of their registrations only."""

    async def forward(
        method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpReply:
        broker, target = _broker_at(cluster, url)
        if hdrs.AUTHORIZATION in headers and not forwarding.is_proven(broker.broker_id):
            raise HttpError(
                f"broker {broker.broker_id} answers this, and a token is sent only to brokers that "
                "prove themselves: open its console, or set brokerClientCertificateFilePath or "
                "znodeSignatures=require"
            )
        peers = forwarding.peers_with(lambda *_: headers)
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
