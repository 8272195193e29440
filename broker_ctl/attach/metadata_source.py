"""Whether the metadata store still is the one that the brokers of a Pulsar cluster use.

A cluster can migrate its metadata to another store while it serves (docs:
pulsar-metadata-migration). From the first phase on its brokers write nothing to this store; after
the last one it is a copy that nobody updates, in which brokers and owners look as alive as before.
A plan made of it would move bundles that are elsewhere.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.clock import Clock
from broker_ctl.coordination.membership.foreign_brokers import ForeignBrokers
from broker_ctl.errors import CorruptRecord, PeerError, StoreError
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.broker_ctl import MigrationRecord
from broker_ctl.store.records.ownership import LeaderBroker

log = logging.getLogger(__name__)

# Between two looks of the watch, and between two comparisons with the admin API.
_PERIOD_S: Final = 10.0
# A broker or a leader that changes between the two reads of a comparison looks like a difference.
_LOOKS: Final = 3
_BETWEEN_LOOKS_S: Final = 1.0


class Cause(StrEnum):
    """What shows that the store is outdated."""

    MIGRATION = "migration"
    BROKERS = "brokers"
    LEADER = "leader"
    REPORTS = "reports"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Outdated:
    """The brokers use the store no more, or not now.

    Attributes:
        why: a sentence for operators: what was found, and what to do.
    """

    cause: Cause
    why: str


class ClusterSource(Protocol):
    """Where a cluster is read from, and whether that shows the cluster as it is now.

    Attributes:
        outdated: the newest finding; None: the source is fresh, or was not looked at yet.
    """

    outdated: Outdated | None

    async def start(self) -> None:
        """Begin to read; returns when the cluster has been read once.

        Raises:
            StartError: this cluster cannot be read.
        """
        ...

    async def close(self) -> None:
        """Stop reading."""
        ...

    def stuck(self) -> list[dict[str, Any]]:
        """Bundles that a broker has given up, and that no broker takes; with their last owner."""
        ...

    async def check(self) -> Outdated | None:
        """Why the source is outdated; None if it is not.

        Raises:
            StoreError: the store does not answer.
        """
        ...

    async def watch(self) -> None:
        """Check every few seconds, so that logs and metrics show what nobody has asked for."""
        ...

    async def obstacle(self) -> str:
        """Why nothing may be moved by what the source shows; empty if it may."""
        ...


class MetadataSource:
    """`ClusterSource` that is the metadata store itself.

    It judges the store by the node of a migration, and by comparison with the admin API.

    Attributes:
        outdated: the newest finding; None: the store is in use, or was not looked at yet.

    Args:
        max_report_age_s: seconds without a new load report after which nobody writes any more.
    """

    def __init__(
        self,
        store: MetadataStore,
        admin: PulsarAdmin,
        brokers: ForeignBrokers,
        clock: Clock,
        *,
        max_report_age_s: float,
    ) -> None:
        self._store = store
        self._admin = admin
        self._brokers = brokers
        self._clock = clock
        self._max_report_age_s = max_report_age_s
        # Its zxid, and when it was first seen.
        self._newest_report = 0, 0.0
        self._difference: Outdated | None = None
        self._compared_s: float | None = None
        self.outdated: Outdated | None = None

    async def start(self) -> None:
        """There is nothing to begin: the store is read by its watches."""

    async def close(self) -> None:
        """See `start`."""

    def stuck(self) -> list[dict[str, Any]]:
        """None: where ZooKeeper shows the owners, the next lookup places a bundle."""
        return []

    async def check(self) -> Outdated | None:
        """Why the store is outdated; None if it is in use.

        The node of a migration is read each time, the comparison is some seconds old at most.

        Raises:
            StoreError: the store does not answer.
        """
        found = await self._migration() or await self._compared()
        log_change(self.outdated, found)
        self.outdated = found
        return found

    async def watch(self) -> None:
        """Check every few seconds, so that logs and metrics show what nobody has asked for."""
        while True:
            try:
                await self.check()
            except StoreError as error:
                log.debug("cannot check the metadata store: %s", error)
            await asyncio.sleep(_PERIOD_S)

    async def obstacle(self) -> str:
        """Why nothing may be moved by what the store shows; empty if it may."""
        try:
            found = await self.check()
        except StoreError as error:
            return f"cannot read whether the cluster still uses this metadata store: {error}"
        return "" if found is None else found.why

    async def _migration(self) -> Outdated | None:
        # A server that lags behind may not have the node yet, and an act after it is one too many.
        await self._store.sync(paths.METADATA_MIGRATION)
        why = await describe_migration(self._store)
        return Outdated(Cause.MIGRATION, why) if why else None

    async def _compared(self) -> Outdated | None:
        now_s = self._clock.now_s()
        if self._compared_s is None or now_s - self._compared_s >= _PERIOD_S:
            self._difference = await self._compare()
            self._compared_s = self._clock.now_s()
        return self._difference

    async def _compare(self) -> Outdated | None:
        """A difference that lasts; none while the admin API does not answer."""
        found = None
        for look in range(_LOOKS):
            if look:
                await asyncio.sleep(_BETWEEN_LOOKS_S)
            try:
                found = await self._differing_brokers() or await self._differing_leader()
            except PeerError as error:
                log.debug("cannot compare the metadata store with the admin API: %s", error)
                return None
            if found is None:
                return await self._silence()
        return found

    async def _differing_brokers(self) -> Outdated | None:
        live, stored = frozenset(await self._admin.brokers()), frozenset(self._brokers.peers)
        if live == stored:
            return None
        parts = [
            f"{text} {', '.join(sorted(names))}"
            for text, names in (("without", live - stored), ("with", stored - live))
            if names
        ]
        return Outdated(
            Cause.BROKERS,
            f"the brokers in this store are not those of the admin API, but {' and '.join(parts)}: "
            "check that --zookeeper and --admin are of one cluster, and that it still uses "
            "ZooKeeper",
        )

    async def _differing_leader(self) -> Outdated | None:
        leader = await self._admin.leader()
        node = await self._store.get(paths.LOADBALANCE_ELECTION.node_path)
        try:
            stored = None if node is None else LeaderBroker.decode(node.path, node.data).service_url
        except CorruptRecord as error:
            log.debug("skipped the leader: %s", error)
            return None
        if leader == stored:
            return None
        return Outdated(
            Cause.LEADER,
            f"the leader is {stored or 'nobody'} in this store, and {leader or 'nobody'} by the "
            "admin API: check that the cluster still uses ZooKeeper",
        )

    async def _silence(self) -> Outdated | None:
        """Reports that have not changed for too long, of brokers that answer.

        By this process's own clock, which the times in the store need not agree with.
        """
        reports = [
            await self._store.exists(paths.load_report(broker_id))
            for broker_id in self._brokers.peers
        ]
        zxid = max((stat.mzxid for stat in reports if stat is not None), default=0)
        now_s, (known, seen_s) = self._clock.now_s(), self._newest_report
        if zxid != known or not zxid:
            seen_s = now_s
            self._newest_report = zxid, seen_s
        age_s = now_s - seen_s
        if age_s <= self._max_report_age_s:
            return None
        return Outdated(
            Cause.REPORTS,
            f"no broker has written a load report to this store for {age_s:.0f} s, although the "
            f"admin API answers ({self._max_report_age_s:g} s are allowed): check that the cluster "
            "still uses ZooKeeper",
        )


async def describe_migration(store: MetadataStore) -> str:
    """How a migration away from a store has outdated it; empty if none has.

    Raises:
        StoreError: the store does not answer.
    """
    node = await store.get(paths.METADATA_MIGRATION)
    if node is None:
        return ""
    try:
        record = MigrationRecord.decode(node.path, node.data)
    except CorruptRecord as error:
        return f"the metadata may be migrated at present: {error}"
    if not record.outdates_store:
        return ""
    where = record.target_url or "another store"
    if record.is_completed:
        return (
            f"the cluster has migrated its metadata to {where}: no broker updates this store any "
            "more; attach can only balance a cluster that uses ZooKeeper"
        )
    return (
        f"the cluster migrates its metadata to {where} (phase {record.phase}): brokers write "
        "nothing to this store meanwhile, and nothing is moved until it has ended"
    )


def outdated_row(found: Outdated | None) -> Mapping[str, str] | None:
    """A finding as status and snapshots have it."""
    return None if found is None else {"cause": found.cause, "why": found.why}


def log_change(before: Outdated | None, found: Outdated | None) -> None:
    """Log a finding once, and its end."""
    if found is None and before is not None:
        log.warning("the cluster is read as it is again; attach acts as before")
    elif found is not None and found != before:
        log.error("attach does not act: %s", found.why)
