"""The server's side: one tree, its sessions, who is told of what.

Sessions expire on the time of the running loop, so a loop with a virtual clock expires them in
virtual time. There is one server and it never lags: what another store wrote is seen by the next
request that is executed.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from broker_ctl.errors import SessionExpired
from broker_ctl.store.interface import Delete, Notification, Operation, Result
from broker_ctl.store.memory.tree import Author, Tree

# A session id starts with the number of the server that made it; from 128 on it is negative.
_SERVERS: Final = (1, 199, 42)
_NO_SESSION: Final = 0


class Client(Protocol):
    """The far end of a connection, as the ensemble knows it."""

    def notify(self, notifications: Sequence[Notification]) -> None:
        """Something changed; the connection knows what is watched. It must not act on it yet."""
        ...

    def drop(self, why: str) -> None:
        """The server closes the connection."""
        ...


@dataclass(slots=True, eq=False)
class _Session:
    session_id: int
    timeout_s: float
    client: Client | None = None
    expiry: asyncio.TimerHandle | None = None


class MemoryEnsemble:
    """What all `MemoryStore`s of a test or a simulation share."""

    def __init__(self) -> None:
        self.tree = Tree()
        self._sessions: dict[int, _Session] = {}
        self._numbers = count(1)

    @property
    def session_ids(self) -> frozenset[int]:
        """Sessions that live, connected or not."""
        return frozenset(self._sessions)

    # Connections.

    def attach(self, client: Client, session_id: int, timeout_s: float) -> int:
        """Connect to a session, or open one where ``session_id`` is 0; returns its id.

        Raises:
            SessionExpired: it lives no more.
        """
        if session_id == _NO_SESSION:
            session_id = self._new_id()
            self._sessions[session_id] = _Session(session_id, timeout_s)
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionExpired("the server does not know the session")
        former, session.client = session.client, client
        if session.expiry is not None:
            session.expiry.cancel()
            session.expiry = None
        if former is not None:
            former.drop("another connection took the session over")
        return session_id

    def detach(self, client: Client, session_id: int) -> None:
        """The connection is gone; the session lives on for its timeout."""
        session = self._sessions.get(session_id)
        if session is None or session.client is not client:
            return
        session.client = None
        loop = asyncio.get_running_loop()
        session.expiry = loop.call_later(session.timeout_s, self.expire, session_id)

    def expire(self, session_id: int) -> None:
        """End a session, as its timeout would; its connection is closed."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        self.end(session_id)
        if session.client is not None:
            session.client.drop("the session has expired")

    def end(self, session_id: int) -> None:
        """End a session: its ephemeral nodes go in one transaction."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        self._commit([Delete(path) for path in self.tree.ephemerals(session_id)], session_id)
        del self._sessions[session_id]

    def _new_id(self) -> int:
        number = next(self._numbers)
        server = _SERVERS[number % len(_SERVERS)]
        return int.from_bytes(bytes([server]) + number.to_bytes(7, "big"), "big", signed=True)

    # Requests.

    def write(self, session_id: int, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """Commit a transaction.

        Raises:
            SessionExpired: the session lives no more; nothing was done.
            MultiFailed: an operation failed; nothing was done.
        """
        if session_id not in self._sessions:
            raise SessionExpired("the session has expired")
        return self._commit(operations, session_id)

    def reap(self) -> None:
        """Delete what a real server's container check finds each minute."""
        for path in self.tree.reapable(self._now_ms()):
            self._commit([Delete(path)], _NO_SESSION)

    def _commit(self, operations: Sequence[Operation], session_id: int) -> tuple[Result, ...]:
        committed = self.tree.commit(operations, Author(session_id, self._now_ms()))
        for session in self._sessions.values():
            if session.client is not None:
                session.client.notify(committed.notifications)
        return committed.results

    @staticmethod
    def _now_ms() -> int:
        return round(asyncio.get_running_loop().time() * 1000)
