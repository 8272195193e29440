"""A connection that looks up many topics of a namespace: allowed once, while all stays the same."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.codec import decode_object, encode
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import (
    Authorization,
    AuthorizationPolicy,
    Client,
    ClusterRoles,
    Decision,
    Operation,
    Resource,
)
from broker_ctl.security.signed_requests import HEADER
from broker_ctl.store import paths
from tests.api.http.access.test_known_clients import Line, Tokens, bearer, connected
from tests.support.clusters.fake_services import CLUSTER, NAMESPACE, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import eventually

PATHS: Final = [f"/lookup/v2/topic/persistent/{NAMESPACE}/topic%20{n}" for n in range(4)]
READER: Final = bearer("reader")


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def authenticator(tokens: Tokens) -> Authenticator:
    return Authenticator([tokens])


@pytest.fixture
async def broker(authenticator: Authenticator) -> AsyncIterator[Broker]:
    policy = AuthorizationPolicy(ClusterRoles(), is_enabled=True)
    rules = ApiRules(CLUSTER, authenticator=authenticator, policy=policy)
    async with serving_brokers([free_port()], rules) as [one]:
        grants = one.dependencies.services.grants
        await grants.start()
        try:
            yield one
        finally:
            await grants.close()


@pytest.fixture
async def line(broker: Broker) -> AsyncIterator[Line]:
    """The connection of a reader who has looked a topic up."""
    await grant(broker, {"reader": ["consume"]})
    async with connected(broker) as one:

        async def is_found() -> bool:
            return await one.status(PATHS[0], READER) == 200

        await eventually(is_found, what="the grant")
        yield one


async def grant(broker: Broker, roles: dict[str, list[str]]) -> None:
    """The grants of the namespace, as Pulsar stores them."""
    store, path = broker.metadata.store, paths.policies(NAMESPACE)
    node = await store.get(path)
    assert node is not None
    fields = decode_object(node.data) | {"auth_policies": {"namespace_auth": roles}}
    await store.set(path, encode(fields), node.stat.version)


async def test_a_right_on_a_namespace_is_judged_once(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From memory: the first lookup has read the grants.
    assert await line.status(PATHS[0], READER) == 200
    judged: list[Resource] = []
    recall = Authorization.recall

    def count(
        self: Authorization, client: Client, operation: Operation, resource: Resource
    ) -> Decision | None:
        judged.append(resource)
        return recall(self, client, operation, resource)

    monkeypatch.setattr(Authorization, "recall", count)
    assert [await line.status(path, READER) for path in PATHS] == [200] * len(PATHS)
    assert judged == []
    other = PATHS[0].replace(str(NAMESPACE), "t/other")
    assert await line.status(other, READER) == 403
    assert len(judged) == 1


async def test_another_token_of_the_connection_has_no_such_right(line: Line) -> None:
    for _ in range(2):
        assert await line.status(PATHS[1], READER) == 200
        assert await line.status(PATHS[1], bearer("proxy")) == 403
        assert await line.status(PATHS[1], bearer("wrong")) == 401
        assert await line.status(PATHS[1]) == 401


async def test_a_lookup_with_a_signature_is_judged_as_signed(line: Line) -> None:
    assert await line.status(PATHS[1], READER) == 200
    # Without keys of the cluster a signature means nothing; it only leaves the short way.
    assert await line.status(PATHS[1], READER, f"{HEADER}: v1 x") == 200


async def test_the_right_ends_with_the_token(
    line: Line, tokens: Tokens, authenticator: Authenticator
) -> None:
    assert await line.status(PATHS[1], READER) == 200
    tokens.valid.discard("reader")
    authenticator.announce_change()
    assert await line.status(PATHS[1], READER) == 401


async def test_the_right_ends_with_the_grant(line: Line, broker: Broker) -> None:
    assert await line.status(PATHS[1], READER) == 200
    await grant(broker, {"other": ["consume"]})

    async def is_refused() -> bool:
        return await line.status(PATHS[1], READER) == 403

    await eventually(is_refused, what="the end of the grant")
