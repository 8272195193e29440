"""Proposals of the leader whose acknowledgements are held, as by servers with a slow disk.

A server pairs a commit with the request that waits for it by session id and xid, and looks at
nothing else (docs: zookeeper-xids): a client that gives one number to two requests of a session
gets the answer of the one for the other.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Proposal:
    session_id: int
    xid: int
    commit: Callable[[], Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A request of a session at the server that it is connected to."""

    xid: int
    answer: "asyncio.Future[Any]"


class Proposals:
    """Of all servers, in their order.

    Attributes:
        are_held: whether what is proposed now waits for `release`.
    """

    def __init__(self) -> None:
        self.are_held = False
        self._proposed: deque[_Proposal] = deque()
        # By session, the oldest first.
        self._waiting: dict[int, deque[_Waiting]] = {}

    @property
    def are_outstanding(self) -> bool:
        """Whether any waits."""
        return bool(self._proposed)

    def hold(self) -> None:
        """No follower acknowledges any more."""
        self.are_held = True

    async def propose(self, session_id: int, xid: int, commit: Callable[[], Any]) -> Any:
        """Wait for a commit that is taken for that of this request; returns what it returned."""
        waiting = _Waiting(xid, asyncio.get_running_loop().create_future())
        self._proposed.append(_Proposal(session_id, xid, commit))
        queue = self._waiting.setdefault(session_id, deque())
        queue.append(waiting)
        try:
            return await waiting.answer
        finally:
            # A proposal stays when the connection ends; the request does not.
            queue.remove(waiting)

    def release(self) -> None:
        """Commit all in their order."""
        self.are_held = False
        while self._proposed:
            self.release_one()

    def release_one(self) -> None:
        """Commit the oldest, if there is one; what was proposed behind it still waits."""
        if self._proposed:
            proposal = self._proposed.popleft()
            outcome = proposal.commit()
            queue = self._waiting.get(proposal.session_id, ())
            oldest = next((one for one in queue if not one.answer.done()), None)
            if oldest is not None and oldest.xid == proposal.xid:
                oldest.answer.set_result(outcome)
