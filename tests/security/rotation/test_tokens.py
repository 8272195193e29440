"""Tokens and keys that are added and revoked while one daemon lives, on both protocols."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest
import pytest_asyncio

from broker_ctl.api.binary.enums import CommandType, ServerError
from broker_ctl.http_client import HttpClient
from tests.support.daemon.in_memory_daemon import Run
from tests.support.daemon.listening_daemon import listening_daemon
from tests.support.daemon.whole_daemon import readings
from tests.support.http.binary_client import PING, BinaryClient, command
from tests.support.security.replaced_files import replace
from tests.support.time.waiting import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADMIN = "admin-0123456789abcdef"
READER = "reader-0123456789abcdef"
KEYS = (bytes(range(32)), bytes(range(32, 64)))


@dataclass
class Living:
    """A daemon with a file of static tokens, and one of the key of JSON Web Tokens."""

    run: Run
    ports: dict[str, int]
    tokens: Path
    key: Path

    async def admit(self, lines: Sequence[str], key: bytes = KEYS[0]) -> None:
        replace(self.tokens, "".join(f"{line}\n" for line in lines).encode())
        replace(self.key, key)
        await self.run.around.reloader.check()

    async def status(self, token: str) -> int:
        """What an HTTP request with a token is answered."""
        url = f"http://127.0.0.1:{self.ports['webServicePort']}/admin/v2/clusters"
        async with HttpClient(token=token, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http:
            return (await http.request("GET", url)).status

    @property
    def binary_port(self) -> int:
        return self.ports["lookupServicePort"]


def connect(token: str) -> bytes:
    return command(
        CommandType.CONNECT,
        client_version="test",
        protocol_version=21,
        auth_method_name="token",
        auth_data=token.encode(),
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def living(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Living]:
    directory = tmp_path_factory.mktemp("tokens")
    tokens, key = directory / "tokens", directory / "key"
    replace(tokens, f"admin:{ADMIN}\n".encode())
    replace(key, KEYS[0])
    async with listening_daemon(
        "authenticationEnabled=true",
        "superUserRoles=admin",
        f"tokenSecretKeyFile={tokens}",
        f"tokenSecretKey=file://{key}",
    ) as (run, ports):
        yield Living(run, ports, tokens, key)


async def test_a_token_counts_once_it_is_in_the_file_and_no_longer(living: Living) -> None:
    await living.admit([f"admin:{ADMIN}"])
    assert await living.status(READER) == 401
    await living.admit([f"admin:{ADMIN}", f"reader:{READER}"])
    assert await living.status(READER) == 200
    async with (
        BinaryClient.to(living.binary_port) as reader,
        BinaryClient.to(living.binary_port) as admin,
    ):
        for client, token in ((reader, READER), (admin, ADMIN)):
            assert (await client.ask(connect(token))).type == CommandType.CONNECTED
        await living.admit([f"admin:{ADMIN}"])
        assert await living.status(READER) == 401
        # It has said nothing since.
        parting = await reader.receive()
        assert parting.error.error == ServerError.AuthenticationError
        assert "revoked" in parting.error.message
        assert await reader.rest() == b""
        assert (await admin.ask(PING)).type == CommandType.PONG
    async with BinaryClient.to(living.binary_port) as late:
        assert (await late.ask(connect(READER))).error.error == ServerError.AuthenticationError


async def test_a_token_that_gets_another_role_ends_its_connections(living: Living) -> None:
    await living.admit([f"admin:{ADMIN}", f"reader:{READER}"])
    async with BinaryClient.to(living.binary_port) as client:
        assert (await client.ask(connect(READER))).type == CommandType.CONNECTED
        await living.admit([f"admin:{ADMIN}", f"other:{READER}"])
        assert (await client.receive()).error.error == ServerError.AuthenticationError


async def test_a_replaced_key_revokes_every_json_web_token_of_before(living: Living) -> None:
    old, new = (jwt.encode({"sub": "client"}, key, "HS256") for key in KEYS)
    await living.admit([f"admin:{ADMIN}"], KEYS[0])
    assert [await living.status(token) for token in (old, new)] == [200, 401]
    async with BinaryClient.to(living.binary_port) as client:
        assert (await client.ask(connect(old))).type == CommandType.CONNECTED
        await living.admit([f"admin:{ADMIN}"], KEYS[1])
        assert [await living.status(token) for token in (old, new)] == [401, 200]
        assert (await client.receive()).error.error == ServerError.AuthenticationError


@pytest.mark.parametrize(
    "lines", [["admin:short"], [f"admin:{ADMIN}", f"other:{ADMIN}"], ["no secret at all"]]
)
async def test_a_broken_file_keeps_the_tokens_of_before(living: Living, lines: list[str]) -> None:
    await living.admit([f"admin:{ADMIN}"])
    await living.admit(lines)
    assert await living.status(ADMIN) == 200
    failing = readings(
        living.run.assembly.foundation.instruments, "broker_ctl_secret_reload_failing"
    )
    assert failing[("static-tokens",)] == 1
    assert failing[("jwt-keys",)] == 0
