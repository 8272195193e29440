"""Rounds of requests: while the session is not proven, all members are asked for a promise.

No node is written meanwhile, and nothing is read: who the members are was read before.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.failsafe.authority import ServingAuthority
from broker_ctl.coordination.membership.peers import Peers
from broker_ctl.core.failsafe.members import MemberList
from broker_ctl.core.failsafe.promises import usable_until_s
from broker_ctl.core.model.commands import RequestPromise
from broker_ctl.errors import PeerError
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# A quarter of a promise: three rounds may fail before the promises of one have run out.
_ROUND_S: Final = 2.0
_LOOK_S: Final = 0.5


class PromiseRounds:
    """Asks for promises while ZooKeeper does not answer this broker.

    Attributes:
        refused: by whom, and why, the last round was refused; empty: it was not.
    """

    def __init__(
        self,
        *,
        broker_id: str,
        authority: ServingAuthority,
        members: Callable[[], MemberList | None],
        peers: Peers,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._authority = authority
        self._members = members
        self._peers = peers
        self._clock = clock
        self._tasks = TaskScope("failsafe")
        self._was_promised = False
        self.refused: dict[str, str] = {}

    def start(self) -> None:
        """Begin to look whether the session is proven."""
        self._tasks.keep(self._run(), "rounds of promises")

    async def close(self) -> None:
        """Stop; promises count until they run out."""
        await self._tasks.close()

    async def _run(self) -> None:
        while True:
            is_extended = await self._ask_if_needed()
            self._note_end()
            await asyncio.sleep(_ROUND_S if is_extended else _LOOK_S)

    async def _ask_if_needed(self) -> bool:
        """One round, where one is needed; returns whether promises extend the authority."""
        members, epoch = self._members(), self._authority.epoch
        if (
            self._authority.has_store
            or members is None
            or members.entry_of(self._broker_id) is None
        ):
            return False
        sent_s = self._clock.now_s()
        if sent_s >= self._authority.deadline_s:
            return False
        others = members.others(self._broker_id)
        request = RequestPromise(self._broker_id, members.version)
        async with asyncio.TaskGroup() as group:
            asked = {
                name: group.create_task(self._ask(name, request), name=f"promise of {name}")
                for name in others
            }
        # The session may have ended meanwhile, or been proven: `extend` looks at the first, and
        # the second does no harm.
        refused = {name: task.result() for name, task in asked.items() if task.result()}
        self._log(refused)
        return not refused and self._authority.extend(epoch, usable_until_s(sent_s))

    async def _ask(self, broker_id: str, request: RequestPromise) -> str:
        """Why a member does not promise; empty: it does."""
        try:
            reply = await self._peers.send(broker_id, request, _ROUND_S)
        except PeerError as error:
            return str(error)
        return "" if reply.get("promised") is True else str(reply.get("reason", "no reason given"))

    def _log(self, refused: dict[str, str]) -> None:
        if refused and refused != self.refused:
            said = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
            log.warning("not all members promise, so nothing outlasts the lease: %s", said)
        self.refused = refused

    def _note_end(self) -> None:
        """Log when serving by promises begins and ends, and notify those that wait under them."""
        is_promised = self._authority.is_promised
        if is_promised and not self._was_promised:
            log.warning("ZooKeeper is away: serving on by the promises of all members")
        elif self._was_promised and not is_promised:
            if self._clock.now_s() >= self._authority.deadline_s:
                log.warning("the promises have run out: nothing is served until ZooKeeper answers")
                self._authority.lapse()
            else:
                log.warning("the lease is back, promises are not needed any more")
        self._was_promised = is_promised
