"""This broker on the list of members: joined, read by all others, admitted (docs: failsafe).

A broker acquires nothing before all members have read a list with it and have said so in
ZooKeeper, and then for the length of one promise: its own of an earlier life, which it does not
remember, and those that members gave by an older list.
"""

import asyncio
import logging
import random
from collections.abc import Collection, Sequence

from broker_ctl.coordination.failsafe.member_list import ReadMembers
from broker_ctl.coordination.failsafe.promises import Promises
from broker_ctl.core.failsafe.members import ListVersion, MemberList
from broker_ctl.core.failsafe.promises import PROMISE_S
from broker_ctl.errors import (
    BadVersion,
    NodeExists,
    NoNode,
    NotAdmitted,
    OrderConflict,
    StoreError,
)
from broker_ctl.retry import is_any, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, MetadataStore
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)


class Membership:
    """Implements `Admission`."""

    def __init__(
        self, store: MetadataStore, broker_id: str, promises: Promises, *, rng: random.Random
    ) -> None:
        self._broker_id = broker_id
        self._promises = promises
        self._rng = rng
        self._list = ReadMembers(store, broker_id, rng=rng)
        self._admitted: ListVersion | None = None
        self._tasks = TaskScope("membership")

    async def start(self) -> None:
        """Read and watch the list, and join."""
        await self._list.start()
        self._tasks.keep(self._stay(), "stay")

    async def close(self) -> None:
        """Stop watching; this broker stays on the list."""
        await self._tasks.close()
        await self._list.close()

    # State.

    @property
    def members(self) -> MemberList | None:
        """The list as this process has read it; None: not since its start."""
        return self._list.now

    @property
    def names(self) -> list[str]:
        """The broker ids of the members, sorted; none before the list was read."""
        return [] if self.members is None else sorted(self.members.added)

    @property
    def reads(self) -> dict[str, ListVersion]:
        """Which version of the list each member has read, by its own word."""
        return dict(self._list.reads)

    @property
    def is_admitted(self) -> bool:
        """Whether all members have known of this broker for the length of a promise."""
        return self._admitted is not None and self._admitted == self._entry()

    @property
    def promised_s(self) -> float:
        """Seconds for which this broker acquires nothing, by its promise."""
        return self._promises.left_s

    def _entry(self) -> ListVersion | None:
        return None if self.members is None else self.members.entry_of(self._broker_id)

    # Admission.

    @property
    def checks(self) -> tuple[Check, ...]:
        """See `Admission`."""
        if self.members is None:
            return ()
        return (Check(paths.FAILSAFE_MEMBERS, self.members.version.version),)

    def require(self) -> None:
        """See `Admission`."""
        if not self.is_admitted:
            raise NotAdmitted("not all members of the cluster know of this broker yet")
        self._promises.require_none()

    async def wait(self) -> None:
        """See `Admission`."""
        while not self.is_admitted:
            await self._list.wait_change()
        await self._promises.wait_none()

    async def on_failed(self, checks: Sequence[Check]) -> None:
        """See `Admission`."""
        if self.checks and self.checks[0] in checks:
            await self._list.read()

    # Removal of others.

    def can_remove(self, broker_id: str) -> bool:
        """Whether a broker is a member that this one may remove.

        Raises:
            NotAdmitted: this broker may not change the list yet.
            OrderConflict: this broker would remove itself.
        """
        if broker_id == self._broker_id:
            raise OrderConflict(f"{broker_id} cannot remove itself: ask another member")
        if not self.is_admitted:
            raise NotAdmitted(f"{self._broker_id} is not admitted itself: ask another member")
        return broker_id in self.names

    async def remove(self, broker_ids: Collection[str]) -> list[str]:
        """Take brokers off the list; returns those that were on it.

        This broker stays on it, and is admitted: so every broker that comes later must be known to
        one that knows that the others are gone (docs: model-failsafe).

        Raises:
            NotAdmitted, OrderConflict: as `can_remove`; or the list changes at this moment.
            StoreError: the list cannot be read or written.
        """
        members = await self._list.read()
        found = sorted(name for name in set(broker_ids) if self.can_remove(name))
        if found and members is not None:
            try:
                await self._list.write(members, members.without(found))
            except (BadVersion, NoNode) as error:
                raise OrderConflict("the list of members has changed: look again") from error
            log.warning("removed %s from the list of members", ", ".join(found))
        return found

    # Joining.

    async def _stay(self) -> None:
        """Be on the list, and be admitted; again if this broker was removed from it."""
        while True:
            await retry(
                self._join, "cannot join the members", rng=self._rng, judge=is_any(StoreError)
            )
            if (entry := self._entry()) is None:
                continue
            await self._wait_read(entry)
            await asyncio.sleep(PROMISE_S)
            if self._entry() == entry:
                self._admitted = entry
                self._list.notify()
                log.info("admitted: all members have known of this broker for %.0f s", PROMISE_S)
            while self._entry() == entry:
                await self._list.wait_change()
            log.warning("removed from the list of members: joining again")

    async def _join(self) -> None:
        members = await self._list.read()
        if members is not None and self._entry() is not None:
            return
        added = {self._broker_id: 0} if members is None else members.with_member(self._broker_id)
        try:
            await self._list.write(members, added)
        except (NodeExists, BadVersion):
            log.debug("another broker was quicker to write the list of members")

    async def _wait_read(self, entry: ListVersion) -> None:
        waiting: list[str] = []
        while self.members is not None and self._entry() == entry:
            unread = self.members.unread_by(entry, self._list.reads)
            if not unread:
                return
            if unread != waiting:
                waiting = unread
                log.info(
                    "nothing is acquired until %s has read that this broker is a member; a broker "
                    "that is gone is removed by `broker-ctl failsafe remove`",
                    ", ".join(unread),
                )
            await self._list.wait_change()
