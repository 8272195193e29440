"""The list of members as this process has read it, and what each member says it has read."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping

from broker_ctl.coordination.replicated.tree_cache import TreeCache
from broker_ctl.core.failsafe.members import ListVersion, MemberList
from broker_ctl.errors import NoNode, StoreError
from broker_ctl.retry import is_any, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Notification, SessionEvent, Versioned
from broker_ctl.store.records.broker_ctl import ReadList, decode_members, encode_members
from broker_ctl.store.watching import set_watch
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)


def _decode_read(node: Versioned) -> ListVersion:
    return ReadList.decode(node.path, node.data).version


class ReadMembers:
    """Reads the list behind a `sync` after each change, and says so in ZooKeeper.

    Attributes:
        now: the list; None: it was not read since the start of this process.
    """

    def __init__(self, store: MetadataStore, broker_id: str, *, rng: random.Random) -> None:
        self._store = store
        self._broker_id = broker_id
        self._rng = rng
        self._reads = TreeCache(store, paths.FAILSAFE_READS, _decode_read, rng=rng)
        self._wake = asyncio.Event()
        self._has_changed = asyncio.Event()
        self._stops: list[Callable[[], None]] = []
        self._tasks = TaskScope("list of members")
        self.now: MemberList | None = None

    @property
    def reads(self) -> Mapping[str, ListVersion]:
        """Which version of the list each member has read, by its own word; a live view."""
        return self._reads.values

    async def wait_change(self) -> None:
        """Return once the list, or what a member has read of it, has changed."""
        await self._has_changed.wait()

    async def start(self) -> None:
        """Watch the list, and what members have read."""
        self._stops = [
            self._store.listen(self._on_session_event),
            await set_watch(
                self._store, paths.FAILSAFE_MEMBERS, self._on_notification, rng=self._rng
            ),
        ]
        await self._reads.start()
        self._stops.append(self._reads.listen(self.notify))
        self._wake.set()
        self._tasks.keep(self._keep_up(), "keep up")

    async def close(self) -> None:
        """Stop watching."""
        for stop in self._stops:
            stop()
        self._stops = []
        await self._tasks.close()
        await self._reads.close()

    async def read(self) -> MemberList | None:
        """The list, read behind a `sync`; None: there is none.

        It is taken over before it is said to be read: by an older one, no promise is given again.

        Raises:
            StoreError: there was no answer, or the list does not decode.
        """
        await self._store.sync(paths.FAILSAFE_MEMBERS)
        node = await self._store.get(paths.FAILSAFE_MEMBERS)
        found = None if node is None else decode_members(node)
        # Two reads may overtake each other, and the list does not go back.
        if found is not None and _is_newer(found, self.now):
            self.now = found
            self.notify()
        if self.now is not None and self.reads.get(self._broker_id) != self.now.version:
            await self._say(self.now.version)
        return self.now

    async def write(self, known: MemberList | None, added: Mapping[str, int]) -> None:
        """Replace the list, unless it has changed since ``known`` was read; then read it.

        Raises:
            NodeExists, NoNode, BadVersion: it has changed.
            StoreError: the outcome is unknown.
        """
        data = encode_members(added)
        if known is None:
            await self._store.create(paths.FAILSAFE_MEMBERS, data, make_parents=True)
        else:
            await self._store.set(paths.FAILSAFE_MEMBERS, data, known.version.version)
        await self.read()

    async def _say(self, version: ListVersion) -> None:
        path, data = paths.failsafe_read(self._broker_id), ReadList(version).encode()
        try:
            await self._store.set(path, data)
        except NoNode:
            await self._store.create(path, data, make_parents=True)

    async def _keep_up(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            # The store may be away for long.
            await retry(
                self.read,
                "cannot read the list of members",
                rng=self._rng,
                judge=is_any(StoreError),
            )

    def _on_session_event(self, event: SessionEvent) -> None:
        if event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}:
            self._wake.set()

    def _on_notification(self, notification: Notification) -> None:
        if notification.path == paths.FAILSAFE_MEMBERS:
            self._wake.set()

    def notify(self) -> None:
        """Wake those that wait for a change."""
        # Waiters look again, so no change is missed.
        self._has_changed.set()
        self._has_changed = asyncio.Event()


def _is_newer(found: MemberList, known: MemberList | None) -> bool:
    if known is None:
        return True
    ours, theirs = known.version, found.version
    return (theirs.czxid, theirs.version) > (ours.czxid, ours.version)
