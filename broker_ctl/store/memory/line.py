"""The requests of one store in the order in which they were made, whatever becomes of connections.

What a cut left without an answer goes first on the next connection: a read is asked again, so no
state from before the cut is shown after it; a write that was not executed is sent again; of a
write that was executed, the lost reply is found out.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from broker_ctl import errors
from broker_ctl.store.interface import (
    Check,
    Create,
    Delete,
    Operation,
    Outcome,
    Result,
    Stat,
    Versioned,
)
from broker_ctl.store.memory.link import Link, Reply, Request
from broker_ctl.store.memory.tree import Tree

_MOST_IN_FLIGHT: Final = 1000


class RequestLine:
    """Requests that wait for a connection, and the connection that takes them."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._link: Link | None = None
        self._waiting: deque[Request] = deque()
        self._slots = asyncio.Semaphore(_MOST_IN_FLIGHT)
        self._is_closed = False
        self.last_zxid = 0

    async def call(self, request: Request, deadline_s: float) -> Any:
        """Send a request and wait for its answer until ``deadline_s`` of the running loop.

        Raises:
            ConnectionLoss: it was not sent by then.
            OperationTimeout: a read that was not answered by then.
            Ambiguous: a write that was sent, and it cannot be told what became of it.
            SessionExpired: a write that was not sent, or that made ephemeral nodes for the
                session that is lost.
        """
        try:
            async with asyncio.timeout_at(deadline_s), self._slots:
                self.check_open()
                self._submit(request)
                return await request.future
        except TimeoutError:
            raise self._timed_out(request) from None
        finally:
            # Nobody waits for it any more: what was not sent never will be.
            if request in self._waiting:
                self._waiting.remove(request)

    def check_open(self) -> None:
        """Raise StoreClosed once closed."""
        if self._is_closed:
            raise errors.StoreClosed("the store is closed")

    def connect(self, link: Link) -> None:
        """A connection takes what waits, and what comes."""
        self._link = link
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if request.results is None:
                self._submit(request)
            else:
                request.answer(self._found_out(request, request.results))

    def disconnect(self) -> None:
        """The connection is gone; what it left unanswered waits in front of the rest."""
        if self._link is not None:
            self._waiting.extendleft(
                request for request in reversed(self._link.unanswered) if not request.future.done()
            )
            self._link = None

    def expire(self) -> None:
        """The session is lost: what was asked for in its name must not be done for the next."""
        for request in tuple(self._waiting):
            is_bound = any(
                isinstance(operation, Create) and operation.mode.is_ephemeral
                for operation in request.operations
            )
            if is_bound or (request.operations and not request.is_sent):
                self._waiting.remove(request)
                request.fail(errors.SessionExpired(f"{request.what}: its session is lost"))

    def close(self) -> None:
        """Nothing is answered any more."""
        self._is_closed = True
        for request in self._waiting:
            request.fail(errors.StoreClosed("the store is closed"))

    def arrive(self, reply: Reply) -> None:
        """A reply came back."""
        if reply.error is not None:
            reply.request.fail(reply.error)
        else:
            reply.request.answer(reply.value)

    def _submit(self, request: Request) -> None:
        if self._link is None:
            self._waiting.append(request)
        elif not request.future.done():
            request.is_sent = True
            request.zxid_before = self.last_zxid
            self._link.send(request)

    def _found_out(self, request: Request, results: Sequence[Result]) -> tuple[Outcome, ...]:
        return tuple(
            result
            if _node_shows(self._tree, operation, result)
            else self._ambiguous(request, "written over before it could be read")
            for operation, result in zip(request.operations, results, strict=True)
        )

    def _timed_out(self, request: Request) -> errors.StoreError:
        if not request.is_sent:
            return errors.ConnectionLoss(f"{request.what}: not sent by its deadline")
        if request.operations:
            return self._ambiguous(request, "no answer by its deadline")
        return errors.OperationTimeout(f"{request.what}: no answer by its deadline")

    def _ambiguous(self, request: Request, why: str) -> errors.Ambiguous:
        session_id = self._link.session_id if self._link is not None else 0
        return errors.Ambiguous(f"{request.what}: {why}", session_id, request.zxid_before)


def _node_shows(tree: Tree, operation: Operation, result: Result) -> bool:
    """Whether a client could read from the node what an executed write did (reference 6.7)."""
    if isinstance(operation, Delete | Check):
        # Absent, or a younger node: either proves that it is gone.
        return True
    node = tree.find(result.path if isinstance(result, Versioned) else operation.path)
    stat = result.stat if isinstance(result, Versioned) else result
    return node is not None and isinstance(stat, Stat) and node.stat.mzxid == stat.mzxid
