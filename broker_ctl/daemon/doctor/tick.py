"""Examines tickTime, from which lease and heartbeats are computed: three ways to learn it."""

import ssl
from collections.abc import Sequence
from typing import Final

from broker_ctl.addresses import Server, look_up_all
from broker_ctl.codec import decode_object
from broker_ctl.daemon.doctor.findings import Finding, Level
from broker_ctl.errors import CorruptRecord, HttpError, StoreError
from broker_ctl.http_client import HttpClient
from broker_ctl.settings.root import Settings
from broker_ctl.store.zookeeper.four_letter_words import is_refused, send_word
from broker_ctl.store.zookeeper.probe import least_timeouts_s

_CHECK: Final = "tickTime"
_ADMIN_PORT: Final = 8080
_ADMIN_LIMIT_S: Final = 1.0
_MAX_BYTES: Final = 64 * 1024
_OK: Final = 200
_TICKS: Final = 2


async def examine_ticks(
    settings: Settings,
    hosts: Sequence[tuple[str, int]],
    tls: ssl.SSLContext | None,
    limit_s: float,
) -> list[Finding]:
    """Compare zookeeperTickTimeMillis with each server."""
    servers = await look_up_all(hosts, limit_s)
    return [await _examine(settings, server, tls, limit_s) for server in servers]


async def _examine(
    settings: Settings, server: Server, tls: ssl.SSLContext | None, limit_s: float
) -> Finding:
    expected_ms, subject = settings.zookeeper.tick_time_ms, str(server)
    found = await _by_word(server, tls, limit_s) or await _by_admin_server(server.found)
    if found is None:
        return await _by_session(settings, server, tls)
    tick_ms, how = found
    text = f"{tick_ms} ms, says {how}; zookeeperTickTimeMillis={expected_ms}"
    if tick_ms == expected_ms:
        return Finding(_CHECK, subject, Level.OK, text)
    return Finding(_CHECK, subject, _level(tick_ms, expected_ms), text, _advice(tick_ms))


def _level(tick_ms: float, expected_ms: float) -> Level:
    """With a longer tick than expected, leases are too short to be safe."""
    return Level.ERROR if tick_ms > expected_ms else Level.WARNING


def _advice(tick_ms: float) -> str:
    return (
        f"zookeeperTickTimeMillis={tick_ms:g} on all brokers, or the same tickTime on all servers"
    )


async def _by_word(
    server: Server, tls: ssl.SSLContext | None, limit_s: float
) -> tuple[int, str] | None:
    try:
        answer = await send_word(server, "conf", limit_s=limit_s, tls=tls)
    except (OSError, TimeoutError):
        return None
    if is_refused(answer):
        return None
    lines = dict(line.partition("=")[::2] for line in answer.splitlines())
    text = lines.get("tickTime", "").strip()
    return (int(text), "the command conf") if text.isdecimal() else None


async def _by_admin_server(address: str) -> tuple[int, str] | None:
    host = f"[{address}]" if ":" in address else address
    url = f"http://{host}:{_ADMIN_PORT}/commands/configuration"
    async with HttpClient(timeout_s=_ADMIN_LIMIT_S, max_body_bytes=_MAX_BYTES) as client:
        try:
            reply = await client.request("GET", url)
            # Another program may have that port, as a daemon does.
            tick = decode_object(reply.body).get("tick_time") if reply.status == _OK else None
        except (HttpError, CorruptRecord):
            return None
    return (tick, "the admin server") if isinstance(tick, int) else None


async def _by_session(settings: Settings, server: Server, tls: ssl.SSLContext | None) -> Finding:
    """What the server grants a session at least, which is two ticks unless it is set."""
    zookeeper, subject = settings.zookeeper, str(server)
    try:
        least = await least_timeouts_s(
            [server], max_frame_bytes=zookeeper.jute_max_buffer_bytes, tls=tls
        )
    except StoreError as error:
        advice = "ZooKeeper 3.6 or newer is needed"
        return Finding(_CHECK, subject, Level.ERROR, str(error), advice)
    if not least:
        advice = "allow it: 4lw.commands.whitelist=srvr,conf"
        return Finding(_CHECK, subject, Level.SKIPPED, "the server does not say", advice)
    least_ms = round(least[0] * 1000)
    expected_ms = zookeeper.min_session_timeout_ms or _TICKS * zookeeper.tick_time_ms
    text = f"sessions get at least {least_ms} ms, {expected_ms} ms are expected"
    if least_ms == expected_ms:
        return Finding(_CHECK, subject, Level.OK, text)
    advice = (
        f"{_advice(least_ms / _TICKS)}; or zookeeperMinSessionTimeoutMillis={least_ms} if "
        "minSessionTimeout is set there"
    )
    return Finding(_CHECK, subject, _level(least_ms, expected_ms), text, advice)
