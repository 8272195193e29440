"""A daemon's servers in memory, as a cluster with tokens and keys has them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

import pytest

from broker_ctl.api.http.access.peer_requests import PeerRequests
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.clock import SystemClock
from broker_ctl.instruments.clients import BoundInstruments
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.settings.publishing import HttpPort, PortRole
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.security.surface import without_handlers

TOKENS: Final = {
    name: f"the-secret-of-{name}" for name in ("admin", "operator", "viewer", "nobody")
}
KEYS: Final = ClusterKeys.of([bytes(range(32))])
SECURED: Final = ApiRules(
    CLUSTER,
    **admitting(
        "\n".join(f"{name}:{token}" for name, token in TOKENS.items()),
        {"admin"},
        {"viewer"},
        {"operator"},
    ),
    dataplane_secret=b"the-secret-of-the-broker-process".strip,
)


@pytest.fixture
async def harmless(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """A broker whose handlers do nothing, with roles, keys of the cluster and all HTTP ports."""
    without_handlers(monkeypatch)
    port = free_port()
    peers = PeerRequests(
        KEYS,
        f"127.0.0.1:{port}",
        SystemClock(),
        role="broker",
        is_required=True,
        on_refusal=lambda _: None,
        bounds=BoundInstruments(),
    )
    further = tuple(HttpPort(role, port=0) for role in PortRole if role is not PortRole.PUBLIC)
    rules = replace(SECURED, peers=peers, further_ports=further)
    async with serving_brokers([port], rules) as [broker]:
        yield broker


@pytest.fixture
async def without_roles(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """A broker whose handlers do nothing, for everybody."""
    without_handlers(monkeypatch)
    async with serving_brokers([free_port()]) as [broker]:
        yield broker


@pytest.fixture
async def secured() -> AsyncIterator[Broker]:
    """A broker with its own handlers, and roles."""
    async with serving_brokers([free_port()], SECURED) as [broker]:
        yield broker
