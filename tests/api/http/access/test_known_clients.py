"""Requests of one connection: each is judged by its own headers, also after equal ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.clock import SystemClock
from broker_ctl.security.authentication import Authenticator, Evidence, Principal, Proof
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from tests.support.clusters.fake_services import CLUSTER, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S, eventually

SUPER_USERS: Final = "/admin/v2/tenants"
EVERYBODY: Final = "/admin/v2/clusters"
ROLES: Final = frozenset({"admin", "reader", "proxy"})


class Tokens:
    """Each role's token is its name.

    Attributes:
        valid: those that prove their role now.
        asked: how often one was judged.
        ends_s: Unix time at which they expire; None: never.
    """

    def __init__(self) -> None:
        self.valid = set(ROLES)
        self.asked = 0
        self.ends_s: float | None = None

    def authenticate(self, evidence: Evidence) -> Principal | None:
        self.asked += 1
        role = evidence.token.decode()
        return Principal(role, Proof.JWT, self.ends_s) if role in self.valid else None


class Line:
    """One connection to a broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def status(self, path: str, *headers: str) -> int:
        """Of the response to a request."""
        head = [f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
        self._writer.write("\r\n".join(head).encode())
        async with asyncio.timeout(PATIENCE_S):
            text = (await self._reader.readuntil(b"\r\n\r\n")).decode()
            [length] = [
                int(line.partition(":")[2])
                for line in text.splitlines()
                if line.lower().startswith("content-length:")
            ]
            await self._reader.readexactly(length)
        return int(text.split()[1])


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def authenticator(tokens: Tokens) -> Authenticator:
    return Authenticator([tokens])


@pytest.fixture
async def line(authenticator: Authenticator) -> AsyncIterator[Line]:
    roles = ClusterRoles(
        super_users=frozenset({"admin", "proxy"}),
        viewers=frozenset({"reader"}),
        proxies=frozenset({"proxy"}),
    )
    rules = ApiRules(CLUSTER, authenticator=authenticator, policy=AuthorizationPolicy(roles))
    async with serving_brokers([free_port()], rules) as [broker], connected(broker) as one:
        yield one


@asynccontextmanager
async def connected(broker: Broker) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection(*broker.broker_id.split(":"))
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


def original(role: str) -> str:
    return f"X-Original-Principal: {role}"


async def test_a_token_is_judged_once_while_a_connection_shows_it(
    line: Line, tokens: Tokens
) -> None:
    found = [await line.status(EVERYBODY, bearer("reader")) for _ in range(3)]
    assert (found, tokens.asked) == ([200, 200, 200], 1)


async def test_each_request_has_the_rights_of_its_own_token(line: Line) -> None:
    asked = ("admin", "reader", "admin", "reader")
    assert [await line.status(SUPER_USERS, bearer(token)) for token in asked] == [
        *(200, 403, 200, 403)
    ]


@pytest.mark.parametrize(
    "headers", [(), (bearer("wrong"),), (bearer("admin2"),), (bearer("admi"),), (bearer("ädmin"),)]
)
async def test_a_request_without_the_token_has_no_rights(
    line: Line, headers: tuple[str, ...]
) -> None:
    assert await line.status(SUPER_USERS, bearer("admin")) == 200
    assert await line.status(SUPER_USERS, *headers) == 401
    assert await line.status(SUPER_USERS, bearer("admin")) == 200


async def test_a_proxy_has_the_rights_of_each_principal_that_it_names(line: Line) -> None:
    asked = ("admin", "reader", "admin")
    found = [await line.status(SUPER_USERS, bearer("proxy"), original(role)) for role in asked]
    assert found == [200, 403, 200]
    assert await line.status(SUPER_USERS, bearer("proxy")) == 401


async def test_a_revoked_token_ends_with_the_announcement(
    line: Line, tokens: Tokens, authenticator: Authenticator
) -> None:
    assert await line.status(EVERYBODY, bearer("reader")) == 200
    tokens.valid.discard("reader")
    authenticator.announce_change()
    assert await line.status(EVERYBODY, bearer("reader")) == 401


async def test_a_token_is_judged_again_from_its_end_on(line: Line, tokens: Tokens) -> None:
    tokens.ends_s = SystemClock().wall_ms() / 1000 + 0.2
    assert await line.status(EVERYBODY, bearer("reader")) == 200
    tokens.valid.clear()

    async def is_refused() -> bool:
        return await line.status(EVERYBODY, bearer("reader")) == 401

    await eventually(is_refused, what="the end of the token")
