"""Examines the ZooKeeper servers: roles, versions, tick, latency, access control, clocks."""

import asyncio
import random
import ssl
import statistics
from collections.abc import Sequence
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.membership.metadata_migration import describe_for_daemon
from broker_ctl.daemon.doctor.findings import Finding, Level
from broker_ctl.daemon.doctor.others import examine_lost, examine_others
from broker_ctl.daemon.doctor.tick import examine_ticks
from broker_ctl.daemon.wiring.stores import (
    StoreCredentials,
    guarded_tree,
    node_access,
    open_store,
    tls_context,
)
from broker_ctl.errors import BrokerCtlError, StoreError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths
from broker_ctl.store.zookeeper.server_status import LED, Standing, ask_all, verdict
from broker_ctl.store.zookeeper.store import ZooKeeperStore, parse_hosts

CHECK: Final = "zookeeper"
_ROUND_TRIPS: Final = 20
# A heartbeat and its answer have to fit into the lease several times.
_SLOW_S: Final = 0.1
_MOST_NODES: Final = 5_000
_AHEAD_MS: Final = 1_000


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
            findings.append(Finding(CHECK, name, Level.ERROR, text, "name the servers there"))
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
            return [Finding(CHECK, self._name, Level.ERROR, str(error), advice)]
        standings = await ask_all(hosts, limit_s=self._limit_s, tls=tls)
        is_led, sentence = verdict(standings)
        findings = [_standing(one) for one in standings]
        if not is_led:
            advice = "start the servers; broker-ctl zookeeper status follows them"
            return [*findings, Finding(CHECK, self._name, Level.ERROR, sentence, advice)]
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
            return [Finding(CHECK, self._name, Level.ERROR, str(error), "correct the settings")]
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
            return [Finding(CHECK, self._name, Level.ERROR, text, advice)]
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
            return Finding("latency", self._name, Level.WARNING, text, advice)
        return Finding("latency", self._name, Level.OK, text)

    async def _access(self, store: ZooKeeperStore) -> list[Finding]:
        check = "access control"
        if not node_access(self._settings).is_restricted:
            text = "nodes are open to every client of these servers"
            advice = "give the daemons an identity: docs/how-to/secure-a-cluster.md"
            return [Finding(check, self._name, Level.WARNING, text, advice)]
        control = store.access_control(guarded_tree(self._settings))
        found = await control.count(_MOST_NODES)
        if found.foreign:
            text = f"{found.foreign} nodes belong to others, such as {found.foreign_examples[0]}"
            advice = "all daemons need the same identity"
            return [Finding(check, self._name, Level.ERROR, text, advice)]
        if found.open:
            text = f"{found.open} of {found.nodes} nodes are open, such as {found.examples[0]}"
            advice = "broker-ctl zookeeper secure"
            return [Finding(check, self._name, Level.WARNING, text, advice)]
        if writable := await control.anonymously_writable():
            text = f"the servers let everybody write to {writable[0]}"
            advice = "the servers check no access control lists: skipACL?"
            return [Finding(check, self._name, Level.ERROR, text, advice)]
        return [Finding(check, self._name, Level.OK, f"{found.nodes} nodes are closed to others")]

    async def _writers_clock(self, store: ZooKeeperStore) -> list[Finding]:
        """Whether a report was written in the future, by the clock of this machine."""
        if self._name != "metadata-store":
            return []
        names = await store.children(paths.LOAD_REPORTS)
        found = [await store.exists(paths.load_report(name)) for name in names]
        times = [stat.mtime_ms for stat in found if stat is not None]
        if not times:
            return [Finding("clock", "servers", Level.SKIPPED, "no broker has reported yet")]
        ahead_ms = max(times) - self._clock.wall_ms()
        if ahead_ms > _AHEAD_MS:
            text = f"{ahead_ms / 1000:.1f} s behind a ZooKeeper server, or more"
            advice = "synchronize the clocks of this machine and of the servers"
            return [Finding("clock", "servers", Level.WARNING, text, advice)]
        return [Finding("clock", "servers", Level.OK, "no node was written in the future")]

    async def _migration(self, store: ZooKeeperStore) -> list[Finding]:
        """Whether brokers beside the daemon leave this store."""
        is_mixed = self._settings.broker.allow_mixed_cluster
        if self._name != "metadata-store" or not is_mixed:
            return []
        check = "metadata migration"
        if why := await describe_for_daemon(store):
            advice = "pulsar-admin metadata-migration status"
            return [Finding(check, self._name, Level.ERROR, why, advice)]
        return [Finding(check, self._name, Level.OK, "the brokers use this store")]


def _standing(one: Standing) -> Finding:
    text = " ".join(part for part in (one.state.value, one.version, one.note) if part)
    if one.state in LED:
        return Finding(CHECK, one.server, Level.OK, text)
    advice = "is the server running, and does it reach the others?"
    return Finding(CHECK, one.server, Level.WARNING, text, advice)


def _ensemble(name: str, standings: Sequence[Standing]) -> list[Finding]:
    findings: list[Finding] = []
    count = len(standings)
    versions = sorted({one.version for one in standings if one.version})
    if len(versions) > 1:
        text = f"servers of different versions: {', '.join(versions)}"
        findings.append(Finding(CHECK, name, Level.WARNING, text, "complete the upgrade"))
    if count > 1 and count % 2 == 0:
        text = f"{count} servers tolerate no more failures than {count - 1}"
        advice = "an odd number of voting servers; observers do not count"
        findings.append(Finding(CHECK, name, Level.WARNING, text, advice))
    if count == 1:
        text = "one server: its failure stops the brokers"
        findings.append(Finding(CHECK, name, Level.WARNING, text, "three servers, or five"))
    return findings
