"""Each ready role, grant and proxy at each route of a server, and what it may not send."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

import pytest
from aiohttp import ClientSession, web

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.access.route_rules import ROUTE_RULES, Exempt, Rule
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.codec import decode_object, encode
from broker_ctl.core.model.names import Namespace
from broker_ctl.http_client import HttpClient
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.static_tokens import StaticTokens
from broker_ctl.store import paths
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S

ROLES = ClusterRoles(
    super_users=frozenset({"admin", "proxy"}),
    operators=frozenset({"operator"}),
    viewers=frozenset({"viewer"}),
    proxies=frozenset({"proxy"}),
)
NAMES: Final = (
    *("admin", "proxy", "operator", "viewer"),
    *("nobody", "tenant-admin", "consumer", "producer"),
)
TOKENS: Final = {name: f"the-secret-of-{name}" for name in NAMES}
TOPIC: Final = "persistent://t/ns/x"
PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
SAMPLES: Final = {
    "domain": "persistent",
    "tenant": "t",
    "namespace": "ns",
    "bundle": "0x00000000_0xffffffff",
    "partition": "1",
}
VIEWS: Final = {"read", "monitor"}
OPERATES: Final = {"lookup", "move", "split", "drain", "pause", "plan"}
OF_READY_ROLES: Final = {
    "operator": VIEWS | OPERATES,
    "viewer": VIEWS,
}


def policy(*, is_enabled: bool) -> AuthorizationPolicy:
    return AuthorizationPolicy(ROLES, is_enabled)


def path_of(route: str) -> str:
    # In another order no two patterns of a server have a path in common.
    return PLACEHOLDER.sub(lambda name: SAMPLES.get(name.group(1), "x"), route)


async def _answer(_: web.Request) -> web.Response:
    return web.Response(status=299)


@pytest.fixture
def harmless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Handlers that do nothing: what is allowed is answered with 299."""
    original = ApiServer.routes

    def routes(self: ApiServer) -> list[web.RouteDef]:
        return [web.RouteDef(one.method, one.path, _answer, one.kwargs) for one in original(self)]

    monkeypatch.setattr(ApiServer, "routes", routes)
    return iter(())


@pytest.fixture(params=[True, False], ids=["grants", "no grants"])
async def broker(harmless: None, request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    lines = "\n".join(f"{name}:{token}" for name, token in TOKENS.items())
    rules = ApiRules(
        CLUSTER,
        authenticator=Authenticator([StaticTokens.parse(lines)]),
        policy=policy(is_enabled=request.param),
        dataplane_secret=b"the-secret-of-the-broker-process".strip,
    )
    async with serving_brokers([free_port()], rules) as [one]:
        await grant(one)
        yield one


async def grant(broker: Broker) -> None:
    """The grants as Pulsar stores them."""
    store = broker.metadata.store
    changes: Mapping[str, Mapping[str, object]] = {
        paths.tenant("t"): {"adminRoles": ["tenant-admin"]},
        paths.policies(Namespace("t", "ns")): {
            "auth_policies": {
                "namespace_auth": {"consumer": ["consume"]},
                "destination_auth": {TOPIC: {"producer": ["produce"]}},
                "subscription_auth_roles": {"s": ["nobody"]},
            }
        },
    }
    for path, fields in changes.items():
        node = await store.get(path)
        assert node is not None
        await store.set(path, encode({**decode_object(node.data), **fields}), node.stat.version)


def expected(role: str, rule: Rule, path: str, *, is_enabled: bool) -> bool:
    """Whether a role may send a request; written without the policy."""
    operation = rule.operation.value
    if role == "admin" or operation in OF_READY_ROLES.get(role, ()):
        return True
    if not is_enabled:
        return operation in {"read", "lookup"}
    kind = rule.resource_of.__name__.partition("_")[0]
    by_role = {
        "tenant-admin": (kind in {"namespace", "topic"} and operation not in {"move", "split"})
        or (kind == "tenant" and operation in {"read", "read sensitive data of"}),
        "consumer": operation == "lookup" and kind in {"namespace", "topic"},
        "producer": operation == "lookup" and kind == "topic" and "/x" in path,
    }
    return by_role.get(role, False)


async def sent(http: HttpClient, broker: Broker, method: str, path: str) -> int:
    return (await http.request(method, broker.url + path)).status


@pytest.mark.parametrize("role", [*NAMES[2:], "admin", ""])
async def test_every_role_at_every_route(broker: Broker, role: str) -> None:
    assert broker.api is not None
    is_enabled = broker.api._rules.policy.is_enabled
    wrong: list[tuple[str, str, int, int]] = []
    async with HttpClient(
        token=TOKENS.get(role), timeout_s=PATIENCE_S, max_body_bytes=1 << 20
    ) as http:
        for (method, route), access in ROUTE_RULES.items():
            path = path_of(route)
            if access in {Exempt.HEALTH, Exempt.METRICS, Exempt.CONSOLE}:
                status = 299
            elif access is Exempt.DATA_PLANE or not role:
                status = 401
            elif isinstance(access, Exempt):
                status = 299
            else:
                allowed = expected(role, access, path, is_enabled=is_enabled)
                status = 299 if allowed else 403
            found = await sent(http, broker, method, path)
            if found != status:
                wrong.append((method, route, found, status))
    assert wrong == []
    assert len(ROUTE_RULES) > 90


@pytest.mark.parametrize(
    ("original", "statuses"),
    [
        ("", (401, 401)),
        ("proxy", (401, 401)),
        ("nobody", (403, 403)),
        ("viewer", (299, 403)),
        ("admin", (299, 299)),
    ],
)
async def test_a_proxy_is_judged_with_its_original_principal(
    broker: Broker, original: str, statuses: tuple[int, int]
) -> None:
    asked = (("GET", "/control/v1/status"), ("PUT", "/admin/v2/tenants/t"))
    found = [await status_for("proxy", original, broker, *one) for one in asked]
    assert tuple(found) == statuses


async def test_only_a_proxy_names_another_principal(broker: Broker) -> None:
    assert await status_for("nobody", "admin", broker, "PUT", "/control/v1/pause") == 401
    assert await status_for("nobody", "nobody", broker, "PUT", "/control/v1/pause") == 403


async def status_for(role: str, original: str, broker: Broker, method: str, path: str) -> int:
    headers = {"Authorization": f"Bearer {TOKENS[role]}"}
    if original:
        headers["X-Original-Principal"] = original
    async with (
        ClientSession() as session,
        session.request(method, broker.url + path, headers=headers) as reply,
    ):
        return reply.status
