"""The requests of one store in the order in which they were made, across its connections.

Requests that a cut left unanswered go first on the next connection: a read is sent again, so that
no state from before the cut is returned after it; a write is resolved from its nodes, by the rules
of the client of a real ensemble (docs: ambiguous-writes).
"""

import asyncio
from collections import deque
from typing import Any, Final

from broker_ctl import errors
from broker_ctl.store.interface import Create
from broker_ctl.store.zookeeper import resolve
from broker_ctl.testing.memory_store.proposals import Proposals
from broker_ctl.testing.memory_store.transport import Kind, MemoryTransport, Reply, Request

_MOST_IN_FLIGHT: Final = 1000


class RequestPipeline:
    """Requests that wait for a connection, and the connection that sends them."""

    def __init__(self, proposals: Proposals) -> None:
        self._proposals = proposals
        self._link: MemoryTransport | None = None
        # Lost writes that are resolved behind what is proposed.
        self._lost: deque[Request] = deque()
        self._waiting: deque[Request] = deque()
        self._slots = asyncio.Semaphore(_MOST_IN_FLIGHT)
        self.closed_by: errors.StoreError | None = None
        self.last_zxid = 0

    async def call(self, request: Request, deadline_s: float) -> Any:
        """Send a request and wait for its answer until ``deadline_s`` of the running loop.

        Raises:
            ConnectionLoss: it was not sent by then.
            OperationTimeout: a read that was not answered by then.
            Ambiguous: a write that was sent, and whose outcome cannot be resolved.
            SessionExpired: a write that was not sent, or that created ephemeral nodes in the
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
            # No caller waits for the request any more: if it was not sent, it never will be.
            if request in self._waiting:
                self._waiting.remove(request)

    def check_open(self) -> None:
        """Raise the error that the pipeline was closed with."""
        if self.closed_by is not None:
            raise type(self.closed_by)(str(self.closed_by))

    def connect(self, link: MemoryTransport) -> None:
        """Send queued and later requests over ``link``."""
        self._link = link
        waiting, self._waiting = self._waiting, deque()
        # The server applies all committed transactions before it answers.
        link.server.catch_up()
        for request in waiting:
            if not (request.is_sent and request.operations):
                self._submit(request)
            elif not self._proposals.are_outstanding:
                self._resolve(request, link)
            else:
                if not self._lost:
                    self._submit(self._sync())
                self._lost.append(request)

    def _sync(self) -> Request:
        """A lost write may still be a proposal: its nodes show it behind the answer to this."""
        request = Request("sync", lambda *_: None, Kind.SYNC)
        request.future.add_done_callback(self._synced)
        return request

    def _synced(self, synced: "asyncio.Future[Any]") -> None:
        lost, self._lost = self._lost, deque()
        error = None if synced.cancelled() else synced.exception()
        for request in lost:
            if isinstance(error, errors.StoreError):
                request.fail(type(error)(str(error)))
            elif self._link is None:
                self._waiting.append(request)
            elif not request.future.done():
                self._resolve(request, self._link)

    def disconnect(self) -> None:
        """Handle the end of a connection: its unanswered requests go to the front of the queue."""
        if self._link is not None:
            self._waiting.extendleft(
                request for request in reversed(self._link.unanswered) if not request.future.done()
            )
            self._link = None

    def expire(self) -> None:
        """Fail writes of the lost session: they must not be applied in the next one."""
        for request in tuple(self._waiting):
            is_bound = any(
                isinstance(operation, Create) and operation.mode.is_ephemeral
                for operation in request.operations
            )
            is_write = bool(request.operations) or request.kind is Kind.CLOSE_SESSION
            if is_bound or (is_write and not request.is_sent):
                self._waiting.remove(request)
                request.fail(errors.SessionExpired(f"{request.what}: its session is lost"))

    def close(self, error: errors.StoreError) -> None:
        """Fail all requests, and every later one."""
        self.closed_by = error
        for request in (*self._waiting, *self._lost):
            request.fail(type(error)(str(error)))

    def arrive(self, reply: Reply) -> None:
        """Handle a reply."""
        if reply.error is not None:
            reply.request.fail(reply.error)
        else:
            reply.request.answer(reply.value)

    def _submit(self, request: Request) -> None:
        if self._link is None:
            self._waiting.append(request)
        elif not request.future.done():
            request.is_sent = True
            request.session_id, request.zxid_before = self._link.session_id, self.last_zxid
            self._link.send(request)

    def _resolve(self, request: Request, link: MemoryTransport) -> None:
        """Resolve a lost write as `store.zookeeper.requests` does, from the current nodes."""
        tree = link.server.tree
        operations = request.operations
        nodes = {operation.path: tree.find(operation.path) for operation in operations}
        sender = resolve.Sender(request.session_id, request.zxid_before)
        verdict = resolve.judge(operations, nodes, sender)
        if verdict is resolve.Verdict.UNKNOWN:
            request.fail(self._ambiguous(request, "the nodes do not show it"))
        elif verdict is resolve.Verdict.APPLIED:
            lost = self._ambiguous(request, "done, and written over since")
            resolved = resolve.results(operations, nodes)
            request.answer(
                tuple(
                    lost if isinstance(result, resolve.Verdict) else result for result in resolved
                )
            )
        elif link.session_id == request.session_id:
            self._submit(request)
        else:
            request.fail(errors.SessionExpired(f"{request.what}: its session is lost"))

    def _timed_out(self, request: Request) -> errors.StoreError:
        if not request.is_sent:
            return errors.ConnectionLoss(f"{request.what}: not sent by its deadline")
        if request.operations:
            return self._ambiguous(request, "no answer by its deadline")
        return errors.OperationTimeout(f"{request.what}: no answer by its deadline")

    def _ambiguous(self, request: Request, why: str) -> errors.Ambiguous:
        return errors.Ambiguous(f"{request.what}: {why}", request.session_id, request.zxid_before)
