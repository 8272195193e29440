"""What is on the disks of the servers: it can be copied, and put back."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from broker_ctl.errors import HistoryBehind
from broker_ctl.store.in_process.tree import Tree
from broker_ctl.testing.memory_store.liveness import Session
from broker_ctl.testing.memory_store.servers import Server


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the disk of a server; ``timeouts_s`` by session."""

    tree: Tree
    timeouts_s: Mapping[int, float]


class Disks(ABC):
    """The part of an ensemble that outlives its servers."""

    servers: tuple[Server, ...]
    leader: Server
    _sessions: dict[int, Session]

    @property
    @abstractmethod
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the servers."""

    @abstractmethod
    def _watch(self, session: Session) -> None:
        """Schedule a check of the session for the time of its expiry."""

    def timeout_s(self, session_id: int) -> float:
        """The timeout that was granted to a session; 0 if it does not live."""
        session = self._sessions.get(session_id)
        return 0.0 if session is None else session.timeout_s

    def check_history(self, last_zxid: int) -> None:
        """Refuse a client that has seen more than the servers have.

        Raises:
            HistoryBehind: the servers were restored from a copy.
        """
        if last_zxid > self.leader.tree.zxid:
            raise HistoryBehind(
                f"the history ends at {self.leader.tree.zxid:#x}, not {last_zxid:#x}"
            )

    def copy(self) -> Copy:
        """What is on the disks: the tree, and the sessions with their timeouts."""
        timeouts = {one.session_id: one.timeout_s for one in self._sessions.values()}
        return Copy(self.leader.tree.copy(), timeouts)

    def restore(self, copy: Copy, epoch: int | None = None) -> None:
        """All servers start again from a copy, whose sessions have their whole timeouts.

        Args:
            copy: see `copy`.
            epoch: of the next transactions, if an operator has raised it.
        """
        for session in self._sessions.values():
            if session.expiry is not None:
                session.expiry.cancel()
        for server in self.servers:
            server.restore(copy.tree.copy())
            if epoch is not None:
                server.tree.zxid = epoch << 32
        now_s = self.loop.time()
        self._sessions = {
            session_id: Session(session_id, timeout_s, now_s)
            for session_id, timeout_s in copy.timeouts_s.items()
        }
        for session in self._sessions.values():
            self._watch(session)
