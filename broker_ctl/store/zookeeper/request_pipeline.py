"""The requests of one session in the order in which they were made, across its connections.

A request is queued while there is no connection, and while the bound on requests in flight is
reached. A request that is sent again, because its connection has ended, keeps its place: no later
request is answered before it. A caller that gives up removes its request from the queue; a request
in flight keeps its place until the reply comes, so that the bound holds for the server too.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from broker_ctl import errors
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Connection

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Request:
    """A request, and its sender's session and zxid when it was sent."""

    call: wire.Call[Any]
    future: "asyncio.Future[Any]"
    made_s: float
    is_sent: bool = False
    session_id: int = 0
    zxid_before: int = 0


class RequestPipeline:
    """Requests that wait for a connection, and the connection that sends them."""

    def __init__(self, max_in_flight: int, on_sent: Callable[[float], None] | None = None) -> None:
        self._max_in_flight = max_in_flight
        self._on_sent = on_sent
        # By place, and by turn within a place. A request in the middle can be removed at once.
        self._waiting: OrderedDict[tuple[int, int], _Request] = OrderedDict()
        self._newest = (0, 0)
        self._is_sorted = True
        self._numbers = itertools.count(1)
        self._connection: Connection | None = None
        self._session_id = 0
        self._closed_by: errors.StoreError | None = None
        self.last_zxid = 0

    @property
    def is_closed(self) -> bool:
        """Whether the pipeline is closed and sends nothing more."""
        return self._closed_by is not None

    @property
    def in_flight(self) -> int:
        """Requests that wait or are unanswered."""
        sent = self._connection.in_flight if self._connection is not None else 0
        return sent + len(self._waiting)

    def next_place(self) -> int:
        """Place at the end of the queue; a caller that may repeat its request keeps it."""
        return next(self._numbers)

    async def call(self, call: wire.Call[T], timeout_s: float, place: int | None = None) -> T:
        """Send one request and wait for its reply.

        Raises:
            Ambiguous: a write that was sent and whose reply did not come; says who sent it.
            ConnectionLoss: not sent, or a read without a reply.
            OperationTimeout: a read that was not answered in time.
            SessionExpired: the session ended before the request was sent.
        """
        self.check_open()
        loop = asyncio.get_running_loop()
        request = _Request(call, loop.create_future(), loop.time())
        number = next(self._numbers)
        key = (number if place is None else place, number)
        self._is_sorted = not self._waiting or (self._is_sorted and key > self._newest)
        self._newest = key
        self._waiting[key] = request
        try:
            async with asyncio.timeout(timeout_s):
                self.send_waiting()
                answer: T = await request.future
                return answer
        except TimeoutError:
            raise _timed_out(request, timeout_s) from None
        except errors.Ambiguous as lost:
            raise _ambiguous(request, str(lost)) from None
        finally:
            if not request.is_sent:
                self._waiting.pop(key, None)
            # Its future has the error, which has this function: without a search for garbage both
            # would stay, after each read of a node that does not exist.
            del request

    def send_waiting(self) -> None:
        """Put requests on the wire, the oldest first, as long as there is room."""
        connection = self._connection
        if not self._is_sorted and connection is not None:
            self._waiting = OrderedDict(sorted(self._waiting.items(), key=lambda item: item[0]))
            self._is_sorted = True
        # A connection closes a moment before its end is reported: keep the requests for the next
        # one.
        while (
            self._waiting
            and connection is not None
            and not connection.is_closed
            and connection.in_flight < self._max_in_flight
        ):
            _, request = self._waiting.popitem(last=False)
            if not request.future.done():
                request.is_sent = True
                request.session_id, request.zxid_before = self._session_id, self.last_zxid
                connection.send(request.call, request.future)
                if self._on_sent is not None:
                    self._on_sent(request.future.get_loop().time() - request.made_s)

    def connect(self, connection: Connection, session_id: int) -> None:
        """Send queued and later requests over ``connection``."""
        self._connection, self._session_id = connection, session_id
        self.send_waiting()

    def disconnect(self) -> None:
        """Queue later requests for the next connection."""
        self._connection = None

    def expire(self, why: str) -> None:
        """Fail all queued writes: a write of the old session must not be applied in the new one."""
        self._fail_waiting(errors.SessionExpired(why))

    def close(self, error: errors.StoreError) -> None:
        """Refuse everything from now on."""
        self._closed_by = error
        self._fail_waiting(error)

    def check_open(self) -> None:
        """Raise the error that the pipeline was closed with."""
        if self._closed_by is not None:
            raise _copy(self._closed_by)

    def observe_zxid(self, zxid: int) -> None:
        """Remember the newest zxid that any connection has shown."""
        self.last_zxid = max(self.last_zxid, zxid)

    def _fail_waiting(self, error: errors.StoreError) -> None:
        for request in self._waiting.values():
            if not request.future.done():
                request.future.set_exception(_copy(error))
        self._waiting.clear()


def _copy(error: errors.StoreError) -> errors.StoreError:
    # One exception raised in many tasks would collect the tracebacks of all of them.
    return type(error)(str(error))


def _ambiguous(request: _Request, what: str) -> errors.Ambiguous:
    return errors.Ambiguous(what, request.session_id, request.zxid_before)


def _timed_out(request: _Request, timeout_s: float) -> errors.StoreError:
    what = f"{request.call}: no answer in {timeout_s:.1f} s"
    if not request.is_sent:
        return errors.ConnectionLoss(f"{what}; it was not sent")
    return _ambiguous(request, what) if request.call.is_write else errors.OperationTimeout(what)
