"""Examines the ZooKeeper servers: roles, versions, tick, latency, access control."""

import asyncio
import random
import re
import ssl
import statistics
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from broker_ctl.addresses import Server, look_up_all
from broker_ctl.clock import Clock
from broker_ctl.codec import decode_object
from broker_ctl.coordination.membership.metadata_migration import describe_for_daemon
from broker_ctl.daemon.doctor.machine import Finding, FindingLevel
from broker_ctl.daemon.wiring.stores import (
    StoreCredentials,
    guarded_tree,
    node_access,
    open_store,
    tls_context,
)
from broker_ctl.errors import BrokerCtlError, CorruptRecord, HttpError, NewerVersion, StoreError
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.effect import differing, fingerprints
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.broker_ctl import LostRecord, Registration
from broker_ctl.store.zookeeper.server_status import (
    LED,
    Standing,
    ask_all,
    is_refused,
    least_timeouts_s,
    send_word,
    verdict,
)
from broker_ctl.store.zookeeper.store import ZooKeeperStore, parse_hosts

# Examines tickTime, from which lease and heartbeats are computed: three ways to learn it.


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
        return Finding(_CHECK, subject, FindingLevel.OK, text)
    return Finding(_CHECK, subject, _level(tick_ms, expected_ms), text, _advice(tick_ms))


def _level(tick_ms: float, expected_ms: float) -> FindingLevel:
    """With a longer tick than expected, leases are too short to be safe."""
    return FindingLevel.ERROR if tick_ms > expected_ms else FindingLevel.WARNING


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
        return Finding(_CHECK, subject, FindingLevel.ERROR, str(error), advice)
    if not least:
        advice = "allow it: 4lw.commands.whitelist=srvr,conf"
        return Finding(_CHECK, subject, FindingLevel.SKIPPED, "the server does not say", advice)
    least_ms = round(least[0] * 1000)
    expected_ms = zookeeper.min_session_timeout_ms or _TICKS * zookeeper.tick_time_ms
    text = f"sessions get at least {least_ms} ms, {expected_ms} ms are expected"
    if least_ms == expected_ms:
        return Finding(_CHECK, subject, FindingLevel.OK, text)
    advice = (
        f"{_advice(least_ms / _TICKS)}; or zookeeperMinSessionTimeoutMillis={least_ms} if "
        "minSessionTimeout is set there"
    )
    return Finding(_CHECK, subject, _level(least_ms, expected_ms), text, advice)


# Compares the settings with those of the daemons that are registered.


_OTHERS_CHECK: Final = "settings"
_BROKERS: Final = "brokers"
_NAMED: Final = 3


async def examine_others(settings: Settings, store: MetadataStore) -> list[Finding]:
    """A warning for each key of which a live broker has another value; values are not known.

    Raises:
        StoreError: the nodes cannot be read.
    """
    names = await store.children(paths.REGISTRATIONS)
    nodes = await store.get_many([paths.registration(name) for name in names])
    reported = {
        name: values
        for name, node in zip(names, nodes, strict=True)
        if node is not None and (values := _reported(node)) is not None
    }
    if not reported:
        return [
            Finding(
                _OTHERS_CHECK,
                "other brokers",
                FindingLevel.SKIPPED,
                "no live broker reports its own",
            )
        ]
    own = fingerprints(settings)
    found = [
        Finding(
            _OTHERS_CHECK,
            key,
            FindingLevel.WARNING,
            f"{_listed(key, own, reported)} another value than here",
            "give all daemons one value; restart them by broker-ctl rollout run",
        )
        for key in sorted(differing(own, reported.values()))
    ]
    text = f"those in common are the same at {len(reported)} live brokers"
    return found or [Finding(_OTHERS_CHECK, "other brokers", FindingLevel.OK, text)]


async def examine_lost(store: MetadataStore, now_ms: int) -> list[Finding]:
    """A warning for each broker that the leader misses.

    Raises:
        StoreError: the node cannot be read.
    """
    node = await store.get(paths.LOST)
    if node is None:
        return []
    try:
        since_ms = LostRecord.decode(node.path, node.data).since_ms
    except (CorruptRecord, NewerVersion) as error:
        advice = "a newer release wrote it, or another program did"
        return [Finding(_BROKERS, paths.LOST, FindingLevel.WARNING, str(error), advice)]
    advice = "start it again, or drain it: broker-ctl drain; it is forgotten after a day"
    found = [
        (broker, f"lost {max(0, now_ms - at_ms) / 60_000:.0f} min ago without a stop or a drain")
        for broker, at_ms in since_ms.items()
    ]
    return [Finding(_BROKERS, broker, FindingLevel.WARNING, text, advice) for broker, text in found]


def _reported(node: Versioned) -> Mapping[str, str] | None:
    try:
        return Registration.decode(node.path, node.data).settings
    except (CorruptRecord, NewerVersion):
        return None


def _listed(key: str, own: Mapping[str, str], reported: Mapping[str, Mapping[str, str]]) -> str:
    names = sorted(name for name, values in reported.items() if values.get(key) != own.get(key))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more} {'has' if len(names) == 1 else 'have'}"


# Examines the ZooKeeper servers: roles, versions, tick, latency, access control, clocks.


CHECK: Final = "zookeeper"
_ROUND_TRIPS: Final = 20
# A heartbeat and its answer have to fit into the lease several times.
_SLOW_S: Final = 0.1
_MOST_NODES: Final = 5_000
_AHEAD_MS: Final = 1_000
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
# CVE-2026-24281, by line of releases the last patch that has it.
_HOLE_UNTIL: Final = MappingProxyType({(3, 8): 5, (3, 9): 4})


async def examine_ensembles(settings: Settings, clock: Clock, limit_s: float) -> list[Finding]:
    """All servers that the settings name; each question has ``limit_s``."""
    metadata = settings.metadata
    urls = {"metadata-store": metadata.store_url}
    if metadata.configuration_url != metadata.store_url:
        urls["configuration-metadata-store"] = metadata.configuration_url
    findings: list[Finding] = []
    for name, url in urls.items():
        if url is None:
            text = "metadataStoreUrl is not set"
            findings.append(
                Finding(CHECK, name, FindingLevel.ERROR, text, "name the servers there")
            )
        else:
            findings += await _Ensemble(settings, name, url, clock, limit_s).examine()
    return findings


class _Ensemble:
    """The servers of one store."""

    def __init__(
        self, settings: Settings, name: str, url: StoreUrl, clock: Clock, limit_s: float
    ) -> None:
        self._settings = settings
        self._name = name
        self._url = url
        self._clock = clock
        self._limit_s = limit_s

    async def examine(self) -> list[Finding]:
        """The servers, and what a session sees if they grant one."""
        try:
            tls = tls_context(self._settings)
            hosts = parse_hosts(",".join(str(server) for server in self._url.servers))
        except BrokerCtlError as error:
            advice = "see broker-ctl secrets check"
            return [Finding(CHECK, self._name, FindingLevel.ERROR, str(error), advice)]
        standings = await ask_all(hosts, limit_s=self._limit_s, tls=tls)
        is_led, sentence = verdict(standings)
        findings = [_standing(one) for one in standings]
        if not is_led:
            advice = "start the servers; broker-ctl zookeeper status follows them"
            return [*findings, Finding(CHECK, self._name, FindingLevel.ERROR, sentence, advice)]
        findings += _ensemble(self._name, standings)
        findings += await self._examine_ticks(hosts, tls)
        return findings + await self._in_a_session(self._limit_s * len(standings))

    async def _examine_ticks(
        self, hosts: Sequence[tuple[str, int]], tls: ssl.SSLContext | None
    ) -> list[Finding]:
        return await examine_ticks(self._settings, hosts, tls, self._limit_s)

    async def _in_a_session(self, limit_s: float) -> list[Finding]:
        try:
            store = self._open()
            await store.start()
        except BrokerCtlError as error:
            return [
                Finding(CHECK, self._name, FindingLevel.ERROR, str(error), "correct the settings")
            ]
        try:
            async with asyncio.timeout(limit_s):
                await store.wait_connected()
            return [
                await self._latency(store),
                *await self._others(store),
                *await self._access(store),
                *await self._writers_clock(store),
                *await self._migration(store),
            ]
        except (TimeoutError, StoreError) as error:
            text = str(error) or f"no session within {limit_s:g} s"
            advice = "credentials, TLS, a firewall between here and the servers?"
            return [Finding(CHECK, self._name, FindingLevel.ERROR, text, advice)]
        finally:
            await store.close()

    def _open(self) -> ZooKeeperStore:
        return open_store(
            self._settings,
            self._url,
            self._name,
            random.SystemRandom(),
            instruments=StoreInstruments(),
            credentials=StoreCredentials.now(self._settings),
            max_retries=0,
        )

    async def _others(self, store: ZooKeeperStore) -> list[Finding]:
        if self._name != "metadata-store":
            return []
        settings = await examine_others(self._settings, store)
        return [*settings, *await examine_lost(store, self._clock.wall_ms())]

    async def _latency(self, store: ZooKeeperStore) -> Finding:
        """Round trips of a sync, which a follower has to pass on to the leader."""
        took: list[float] = []
        for _ in range(_ROUND_TRIPS):
            begun = self._clock.now_s()
            await store.sync("/")
            took.append(self._clock.now_s() - begun)
        median, longest = statistics.median(took), max(took)
        text = f"{_ROUND_TRIPS} syncs: {median * 1000:.1f} ms, the slowest {longest * 1000:.1f} ms"
        if median > _SLOW_S:
            advice = "disks and load of the servers, and the network to them"
            return Finding("latency", self._name, FindingLevel.WARNING, text, advice)
        return Finding("latency", self._name, FindingLevel.OK, text)

    async def _access(self, store: ZooKeeperStore) -> list[Finding]:
        check = "access control"
        if not node_access(self._settings).is_restricted:
            text = "nodes are open to every client of these servers"
            advice = "give the daemons an identity: docs/how-to/secure-a-cluster.md"
            return [Finding(check, self._name, FindingLevel.WARNING, text, advice)]
        control = store.access_control(guarded_tree(self._settings))
        found = await control.count(_MOST_NODES)
        if found.foreign:
            text = f"{found.foreign} nodes belong to others, such as {found.foreign_examples[0]}"
            advice = "all daemons need the same identity"
            return [Finding(check, self._name, FindingLevel.ERROR, text, advice)]
        if found.open:
            text = f"{found.open} of {found.nodes} nodes are open, such as {found.examples[0]}"
            advice = "broker-ctl zookeeper secure"
            return [Finding(check, self._name, FindingLevel.WARNING, text, advice)]
        if writable := await control.anonymously_writable():
            text = f"the servers let everybody write to {writable[0]}"
            advice = "the servers check no access control lists: skipACL?"
            return [Finding(check, self._name, FindingLevel.ERROR, text, advice)]
        return [
            Finding(check, self._name, FindingLevel.OK, f"{found.nodes} nodes are closed to others")
        ]

    async def _writers_clock(self, store: ZooKeeperStore) -> list[Finding]:
        """Whether a report was written in the future, by the clock of this machine."""
        if self._name != "metadata-store":
            return []
        names = await store.children(paths.LOAD_REPORTS)
        found = [await store.exists(paths.load_report(name)) for name in names]
        times = [stat.mtime_ms for stat in found if stat is not None]
        if not times:
            return [Finding("clock", "servers", FindingLevel.SKIPPED, "no broker has reported yet")]
        ahead_ms = max(times) - self._clock.wall_ms()
        if ahead_ms > _AHEAD_MS:
            text = f"{ahead_ms / 1000:.1f} s behind a ZooKeeper server, or more"
            advice = "synchronize the clocks of this machine and of the servers"
            return [Finding("clock", "servers", FindingLevel.WARNING, text, advice)]
        return [Finding("clock", "servers", FindingLevel.OK, "no node was written in the future")]

    async def _migration(self, store: ZooKeeperStore) -> list[Finding]:
        """Whether brokers beside the daemon leave this store."""
        is_mixed = self._settings.broker.allow_mixed_cluster
        if self._name != "metadata-store" or not is_mixed:
            return []
        check = "metadata migration"
        if why := await describe_for_daemon(store):
            advice = "pulsar-admin metadata-migration status"
            return [Finding(check, self._name, FindingLevel.ERROR, why, advice)]
        return [Finding(check, self._name, FindingLevel.OK, "the brokers use this store")]


def has_reverse_dns_hole(version: str) -> bool:
    """Whether a server of that version has CVE-2026-24281: 3.8.0 to 3.8.5, and 3.9.0 to 3.9.4."""
    found = _VERSION.match(version)
    if found is None:
        return False
    major, minor, patch = map(int, found.groups())
    return (major, minor) in _HOLE_UNTIL and patch <= _HOLE_UNTIL[major, minor]


def _standing(one: Standing) -> Finding:
    text = " ".join(part for part in (one.state.value, one.version, one.note) if part)
    if one.state in LED:
        return Finding(CHECK, one.server, FindingLevel.OK, text)
    advice = "is the server running, and does it reach the others?"
    return Finding(CHECK, one.server, FindingLevel.WARNING, text, advice)


def _ensemble(name: str, standings: Sequence[Standing]) -> list[Finding]:
    findings: list[Finding] = []
    count = len(standings)
    versions = sorted({one.version for one in standings if one.version})
    if len(versions) > 1:
        text = f"servers of different versions: {', '.join(versions)}"
        findings.append(Finding(CHECK, name, FindingLevel.WARNING, text, "complete the upgrade"))
    if weak := [one for one in standings if has_reverse_dns_hole(one.version)]:
        names = ", ".join(f"{one.server} ({one.version})" for one in weak)
        text = f"CVE-2026-24281: a reverse DNS name passes the check of TLS host names at {names}"
        findings.append(
            Finding(CHECK, name, FindingLevel.WARNING, text, "3.9.5 or 3.8.6, or later")
        )
    if count > 1 and count % 2 == 0:
        text = f"{count} servers tolerate no more failures than {count - 1}"
        advice = "an odd number of voting servers; observers do not count"
        findings.append(Finding(CHECK, name, FindingLevel.WARNING, text, advice))
    if count == 1:
        text = "one server: its failure stops the brokers"
        findings.append(Finding(CHECK, name, FindingLevel.WARNING, text, "three servers, or five"))
    return findings
