"""Places, descriptors and rates that a stranger takes before it is known who it is."""

import asyncio
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import psutil

from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from tests.security.attacks.scene import VIEWER, Outcome, Scene
from tests.support.security.authority import issue
from tests.support.time.waiting import PATIENCE_S

# Answers to failures are delayed by address: these are not the one of the other attacks.
_FLOODER, _STRANGER, _SILENT = "127.0.0.7", "127.0.0.8", "127.0.0.10"
_FORMS: Final = 1_024
# Once a second: a busy daemon takes some to begin them.
_LOOKS: Final = 20
_FAILURES: Final = 14
_STREAMS: Final = 100
_HANDSHAKES: Final = 600
_DESCRIPTORS: Final = 1_024
# As long as the limit of a handshake, and as many times an idle connection's in `scene`.
_HELD_S: Final = 12.0
_READERS: Final = 10
_PIPELINED: Final = 150
_REQUESTS: Final = 100


async def half_forms(scene: Scene) -> Outcome:
    """Send forms of the console without their end, and have all places of probes and commands."""
    daemon = scene.guarded
    origin = f"Origin: {daemon.url}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    head = _head(daemon, "POST", "/ui/sign-in", f"{origin}Content-Length: 100\r\n")
    with ExitStack() as held:
        for _ in range(_FORMS):
            _, writer = await _connect(daemon, _FLOODER)
            held.callback(_abort, writer)
            writer.write(head + b"t")
        paths = ("/livez", "/readyz", "/dataplane/v1/authority", "/control/v1/status")
        seen: dict[str, int] = {}
        for _ in range(_LOOKS):
            seen = {path: (await scene.ask(scene.operator, "GET", path)).status for path in paths}
            if 503 in seen.values():
                break
            await asyncio.sleep(1.0)
    return Outcome(503 in seen.values(), " ".join(f"{path} {seen[path]}" for path in paths))


async def refused_streams(scene: Scene) -> Outcome:
    """Be refused slowly, many times at once, where those who have signed in wait for updates."""
    daemon = scene.guarded
    for _ in range(_FAILURES):
        await _first_line(daemon, _STRANGER, "GET", "/control/v1/status")
    asked = _head(daemon, "GET", "/ui/live")
    with ExitStack() as held:
        for _ in range(_STREAMS):
            _, writer = await _connect(daemon, _STRANGER)
            held.callback(_abort, writer)
            writer.write(asked)
        await asyncio.sleep(1.0)
        token = f"Authorization: Bearer {VIEWER}\r\n"
        line = await _first_line(daemon, "127.0.0.1", "GET", "/ui/live", token)
    return Outcome(" 503 " in line, line)


async def silent_handshakes(scene: Scene) -> Outcome:
    """Take the descriptors that a daemon needs for ZooKeeper, at a TLS port, without a word."""
    files = issue(scene.directory / "silent")
    with reserve_port() as tls, _descriptors(_DESCRIPTORS):
        port = port_of(tls)
        own = {"webServicePortTls": str(port), **files.served}
        async with scene.another("silent", own) as daemon:
            process = psutil.Process(daemon.pid)
            before = process.num_fds()
            with ExitStack() as held:
                _lift_limit()
                for _ in range(_HANDSHAKES):
                    address = (_SILENT, 0)
                    silent = socket.create_connection(("127.0.0.1", port), source_address=address)
                    held.enter_context(silent)
                await asyncio.sleep(_HELD_S)
                taken = process.num_fds() - before
    return Outcome(taken > _HANDSHAKES / 2, f"{taken} descriptors by {_HANDSHAKES} sockets")


async def answers_that_nobody_reads(scene: Scene) -> Outcome:
    """Keep connections for ever by asking for much, and reading nothing."""
    daemon = scene.open_one
    host, port = daemon.broker_id.split(":")
    asked = _head(daemon, "GET", "/openapi.json") * _PIPELINED
    with ExitStack() as held:
        for _ in range(_READERS):
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            one.bind((_SILENT, 0))
            await asyncio.to_thread(one.connect, (host, int(port)))
            one.sendall(asked)
        await asyncio.sleep(_HELD_S)
        found = psutil.Process(daemon.pid).net_connections()
        kept = sum(
            one.status == "ESTABLISHED" and bool(one.raddr) and one.raddr.ip == _SILENT
            for one in found
        )
    return Outcome(kept == _READERS, f"{kept} of {_READERS} are open after {_HELD_S:g} s")


async def rate_by_a_header(scene: Scene) -> Outcome:
    """Say that one is another broker, and send as many requests as one likes."""
    own = {
        "authenticationEnabled": "true",
        "tokenSecretKeyFile": str(scene.tokens),
        "superUserRoles": "admin",
        "httpRequestsMaxPerSecondPerIp": "5",
        "authenticationFailureMaxDelayMs": "0",
    }
    path = "/admin/v2/namespaces/public/default/0x00000000_0xffffffff/unload"
    async with scene.another("rates", own) as daemon:
        statuses = Counter(
            [
                (
                    await scene.ask(
                        scene.stranger,
                        "PUT",
                        daemon.url + path,
                        headers={"Broker-Ctl-Signature": "x"},
                    )
                ).status
                for _ in range(_REQUESTS)
            ]
        )
    return Outcome(429 not in statuses, str(dict(statuses)))


def _head(daemon: DaemonProcess, method: str, path: str, more: str = "") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: {daemon.broker_id}\r\n{more}\r\n".encode()


def _abort(writer: asyncio.StreamWriter) -> None:
    # A writer that nobody refers to closes its connection.
    writer.transport.abort()


async def _connect(
    daemon: DaemonProcess, address: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = daemon.broker_id.split(":")
    return await asyncio.open_connection(host, int(port), local_addr=(address, 0))


async def _first_line(
    daemon: DaemonProcess, address: str, method: str, path: str, more: str = ""
) -> str:
    reader, writer = await _connect(daemon, address)
    try:
        writer.write(_head(daemon, method, path, more))
        async with asyncio.timeout(PATIENCE_S):
            return (await reader.readline()).decode().strip()
    finally:
        writer.transport.abort()


@contextmanager
def _descriptors(most: int) -> Iterator[None]:
    """The limit of a process that is started meanwhile: the usual one of a shell."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, before[1]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _lift_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
