"""Commands of the leader, executed on this broker (docs: move, split-and-merge)."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from broker_ctl.broker.ownership.held_bundles import OwnedBundle
from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.broker.ownership.ownership import Ownership
from broker_ctl.coordination.directives import MoveRecord, Moves
from broker_ctl.coordination.election import ConfirmedEpoch
from broker_ctl.core.history.rows import OwnershipCause
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.commands import (
    AcquireBundle,
    Command,
    MergeBundles,
    MoveCommand,
    PrepareTransfer,
    ReceiveBundle,
    ReleaseBundle,
    SplitBundle,
)
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Topic
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import DataPlaneRefused, Draining, Fenced, NotOwner, TopicMissing

log = logging.getLogger(__name__)

# Commands of the leader, executed on this broker (docs: move, split-and-merge, i3-epochs).
#
# A command with an epoch below the newest one is refused, and so is one above: only an epoch that
# the store has confirmed counts. The command's transaction checks the epoch again, since a new
# leader may have been elected in between. A command of a move is bound to one version of the move
# record, which the transaction checks likewise.


class BundleCommandHandler:
    """Carries out what leaders command this broker."""

    def __init__(
        self,
        *,
        ownership: Ownership,
        owners: Owners,
        moves: Moves,
        epochs: ConfirmedEpoch,
    ) -> None:
        self._ownership = ownership
        self._owners = owners
        self._moves = moves
        self._epochs = epochs

    @property
    def newest_epoch(self) -> int:
        """The newest epoch of a leader that this broker knows; 0: none."""
        return self._epochs.newest

    async def handle(self, command: Command) -> Mapping[str, Any]:
        """Execute a command; raises Fenced, and the errors of `Ownership`."""
        await self._epochs.confirm(command.epoch)
        self._epochs.require_newest(command.epoch, f"{command.verb}: epoch")
        match command:
            case PrepareTransfer():
                return await self._prepare(command)
            case ReleaseBundle():
                return await self._release(command)
            case ReceiveBundle():
                return await self._receive(command)
            case AcquireBundle():
                guards = [self._epochs.check(command.epoch)]
                return {"token": await self._ownership.acquire(command.bundle, guards)}
            case SplitBundle():
                children = await self._ownership.split(
                    command.bundle,
                    command.algorithm,
                    command.boundaries,
                    [self._epochs.check(command.epoch)],
                )
                return {"children": [str(child) for child in children]}
            case MergeBundles():
                guards = [self._epochs.check(command.epoch)]
                whole, token = await self._ownership.merge(command.left, command.right, guards)
                return {"bundle": str(whole), "token": token}

    async def _prepare(self, command: PrepareTransfer) -> Mapping[str, Any]:
        """Accept a transfer unless a reason speaks against it; changes nothing."""
        self._ownership.check_ready()
        if self._ownership.is_draining:
            raise Draining(f"{self._ownership.broker_id} is draining")
        self._require_same(command, await self._read(command))
        # Caches the owner, so that its release is not taken for an expiry, after which only the
        # owner could re-acquire the bundle.
        await self._owners.owner_of(command.bundle)
        return {"accepted": str(command.bundle)}

    async def _release(self, command: ReleaseBundle) -> Mapping[str, Any]:
        record = self._require_same(command, await self._read(command))
        guards = [self._epochs.check(command.epoch), record.guard]
        try:
            unloaded = await self._ownership.release(
                command.bundle, command.token, command.unload_ms / 1000, guards
            )
        except NotOwner:
            # The command is a repetition whose first answer was lost, or this broker lost the
            # bundle.
            owner = await self._owners.owner_of(command.bundle)
            if owner is not None and owner.token == command.token:
                raise
            return {"released": str(command.bundle), "topics_closed": 0}
        return {"released": str(command.bundle), "topics_closed": unloaded.topics_closed}

    async def _receive(self, command: ReceiveBundle) -> Mapping[str, Any]:
        record = await self._read(command)
        held = self._ownership.owned().get(command.bundle)
        if record is None and held is not None:
            # The command is a repetition: the move has ended here.
            return {"token": held.token}
        record = self._require_same(command, record)
        guards = [self._epochs.check(command.epoch), record.guard]
        token = await self._ownership.acquire(command.bundle, guards, OwnershipCause.TRANSFER)
        # The bundle is served from here on; the leader deletes a record that is left over.
        await self._moves.end(record)
        return {"token": token}

    async def _read(self, command: MoveCommand) -> MoveRecord | None:
        return await self._moves.read_since(command.move_id, command.version)

    def _require_same(self, command: MoveCommand, record: MoveRecord | None) -> MoveRecord:
        """Return the record; raises Fenced if it was written since the command was sent."""
        if record is None:
            raise Fenced(f"move {command.move_id} has ended")
        move = record.move
        if (move.epoch, record.version) != (command.epoch, command.version):
            raise Fenced(
                f"move {command.move_id} was written again: it is at epoch {move.epoch}, "
                f"version {record.version}; the command was sent at epoch {command.epoch}, "
                f"version {command.version}"
            )
        addressee = move.from_broker if isinstance(command, ReleaseBundle) else move.to_broker
        if addressee != self._ownership.broker_id:
            raise Fenced(f"move {command.move_id}: this order to {command.verb} is for {addressee}")
        return record


# Topics of this broker's bundles: their traffic, and the unload of a single topic.
#
# The next client opens an unloaded topic again on the same broker: the bundle keeps its owner.


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """Current traffic by bundle and complete topic name; ``is_cut``: the list is incomplete."""

    bundles: Mapping[Bundle, Mapping[str, BundleStats]]
    is_cut: bool


class OwnTopics:
    """The topics that are loaded on this broker.

    Args:
        owned: returns the bundles in all states; it may change during any await.
        dataplane: serves the topics.
    """

    def __init__(
        self, owned: Callable[[], Mapping[Bundle, OwnedBundle]], dataplane: DataPlane
    ) -> None:
        self._owned = owned
        self._dataplane = dataplane

    async def unload(self, bundle: Bundle, topic: Topic, *, is_dry_run: bool = False) -> None:
        """Unload a topic of a bundle that is served here; a dry run only checks that it is loaded.

        Raises:
            NotOwner: the bundle is not served here (any more).
            TopicMissing: the topic is not loaded.
            DataPlaneError: the topic was not closed, or it is unknown whether it was.
        """
        if not self._is_served(bundle):
            raise NotOwner(f"{bundle} is not served here")
        name = str(topic)
        if is_dry_run:
            if name not in await self._dataplane.topics(bundle):
                raise _not_loaded(name)
            return
        try:
            await self._dataplane.unload_topic(name)
        except DataPlaneRefused as error:
            if name in await self._dataplane.topics(bundle):
                raise
            raise _not_loaded(name) from error
        log.info("unloaded topic %s on request of an operator", name)

    async def names(self, namespace: Namespace) -> list[str]:
        """Complete names of the topics of a namespace that are loaded here.

        Raises:
            DataPlaneError: the broker process does not answer, or cannot list its topics.
        """
        found: list[str] = []
        for bundle in sorted(self._owned()):
            if bundle.namespace == namespace and self._is_served(bundle):
                try:
                    found += await self._dataplane.topics(bundle)
                except DataPlaneRefused:
                    # The bundle was released after the held bundles were listed.
                    if self._is_served(bundle):
                        raise
                await asyncio.sleep(0)
        return found

    async def statistics(self, limit: int, namespace: Namespace | None = None) -> TopicTraffic:
        """The first ``limit`` topics by bundle and name, of one namespace or of all.

        Raises:
            DataPlaneError: the broker process does not answer, or cannot list its topics.
        """
        found: dict[Bundle, Mapping[str, BundleStats]] = {}
        room = limit
        for bundle in sorted(self._owned()):
            if not self._is_served(bundle) or namespace not in {None, bundle.namespace}:
                continue
            if not room:
                return TopicTraffic(found, is_cut=True)
            lines = await self._traffic(bundle)
            found[bundle] = dict(islice(sorted(lines.items()), room))
            if len(lines) > room:
                return TopicTraffic(found, is_cut=True)
            room -= len(lines)
            # The simulated data plane answers without yielding to the event loop.
            await asyncio.sleep(0)
        return TopicTraffic(found, is_cut=False)

    async def _traffic(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        try:
            return await self._dataplane.topic_statistics(bundle)
        except DataPlaneRefused:
            if self._is_served(bundle):
                raise
            # The bundle was released after the held bundles were listed.
            return {}

    def _is_served(self, bundle: Bundle) -> bool:
        held = self._owned().get(bundle)
        return held is not None and held.state == BundleState.OWNED


def _not_loaded(name: str) -> TopicMissing:
    return TopicMissing(f"{name} is not loaded")
