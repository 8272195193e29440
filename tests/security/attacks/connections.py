"""Attacks by connections that say nothing, or little, and by large bodies."""

import asyncio
import resource
import socket
import zlib
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Final

import psutil

from broker_ctl.api.binary.enums import CommandType
from broker_ctl.errors import HttpError
from tests.security.attacks.scene import SECRET, Outcome, Scene
from tests.support.http.binary_client import BinaryClient, command
from tests.support.time.waiting import eventually

_HALF: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
_SOCKETS: Final = 10
# As many as brokerMaxConnections allows by default.
_PLACES: Final = 10_000
# Longer than a whole request may take.
_HELD_S: Final = 90.0
_BOMBS: Final = 12
_BOMB_BYTES: Final = 256 << 20
# Of the daemon's processor; to unpack a body takes 0.1 s.
_CHEAP_S: Final = 0.5
# Each wrong token counts towards the delay of its address.
_POLL_S: Final = 1.0


async def half_requests(scene: Scene) -> Outcome:
    """Hold connections by requests that never end."""
    host, port = scene.guarded.broker_id.split(":")
    async with AsyncExitStack() as stack:
        readers = []
        for _ in range(_SOCKETS):
            reader, writer = await asyncio.open_connection(host, int(port))
            stack.callback(writer.close)
            writer.write(_HALF)
            readers.append(reader)
        with suppress(TimeoutError):
            async with asyncio.timeout(_HELD_S):
                for reader in readers:
                    await reader.read()
        held = sum(not reader.at_eof() for reader in readers)
    return Outcome(held > 0, f"{held} of {_SOCKETS} held for {_HELD_S:g} s")


async def silent_sockets(scene: Scene) -> Outcome:
    """Take all places of clients before they can say who they are."""
    with ExitStack() as held:
        await asyncio.to_thread(_fill, held, scene.guarded.lookup_port)
        async with BinaryClient.to(scene.guarded.lookup_port) as client:
            connect = command(
                CommandType.CONNECT,
                client_version="test",
                protocol_version=21,
                auth_method_name="token",
                auth_data=SECRET.encode(),
            )
            answer = await client.ask(connect)
    is_refused = answer.type != CommandType.CONNECTED
    return Outcome(is_refused, CommandType(answer.type).name)


def _fill(held: ExitStack, port: int) -> None:
    """Connect as many sockets as the daemon has places for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for _ in range(_PLACES):
        held.enter_context(socket.create_connection(("127.0.0.1", port)))


async def compressed_bodies(scene: Scene) -> Outcome:
    """Have large bodies unpacked before anybody asks who has sent them."""
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = b"".join(pack.compress(bytes(1 << 20)) for _ in range(_BOMB_BYTES >> 20)) + pack.flush()
    assert scene.guarded.pid is not None
    process = psutil.Process(scene.guarded.pid)
    before_s = sum(process.cpu_times()[:2])
    statuses: set[int] = set()
    for _ in range(_BOMBS):
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        try:
            reply = await scene.ask(
                scene.stranger, "POST", "/control/v1/plans", content=body, headers=headers
            )
        except HttpError:
            # The answer came before the end of the body, and the connection ended with it.
            continue
        statuses.add(reply.status)
    took_s = sum(process.cpu_times()[:2]) - before_s
    return Outcome(took_s > _CHEAP_S, f"{sorted(statuses)}, {took_s:.1f} s of the processor")


async def revoked_token(scene: Scene) -> Outcome:
    """Go on with a token that the operator has replaced."""
    path = "/control/v1/status"
    extra = "An0therAdminToken0123456789"
    old = scene.tokens.read_text(encoding="utf-8")
    scene.tokens.write_text(f"{old}other:{extra}\n", encoding="utf-8")
    headers = {"Authorization": f"Bearer {extra}"}

    async def is_known() -> bool:
        reply = await scene.ask(scene.stranger, "GET", path, headers=headers)
        return reply.status == 403

    try:
        await eventually(is_known, deadline_s=20.0, what="a new token", poll_s=_POLL_S)
    except AssertionError:
        return Outcome(succeeds=True, seen="the file is read at the start only")
    finally:
        scene.tokens.write_text(old, encoding="utf-8")

    async def is_revoked() -> bool:
        reply = await scene.ask(scene.stranger, "GET", path, headers=headers)
        return reply.status == 401

    await eventually(is_revoked, what="the end of the token", poll_s=_POLL_S)
    return Outcome(succeeds=False, seen="new and revoked tokens count at once")
