"""The one queue of the controller, and its one consumer (docs: kafka-event-queue).

Events only name what may have changed; the state is read when the event is handled. So events of
one kind are queued once, and repeated ones do no harm (KAFKA-5502, 5879). Only the consumer changes
the state of the controller.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.controller.store.fenced_writer import ends_term
from broker_ctl.errors import BrokerCtlError, NoController
from broker_ctl.instruments.partitions import ControllerInstruments

log = logging.getLogger(__name__)

T = TypeVar("T")

# Limit of queued calls of operators; own events are limited by their number of kinds.
MAX_CALLS: Final = 1000
# After a failure: no busy loop while the store does not answer.
PAUSE_S: Final = 0.25


class _Event(NamedTuple):
    """Attributes: future: for the caller; None: there is none."""

    name: str
    work: Callable[[], Awaitable[Any]]
    queued_s: float
    future: "asyncio.Future[Any] | None"


class EventQueue:
    """Events of one term, in the order of their arrival."""

    def __init__(self, clock: Clock, instruments: ControllerInstruments) -> None:
        self._clock = clock
        self._instruments = instruments
        self._events: deque[_Event] = deque()
        self._enqueued_names: set[str] = set()
        self._wake = asyncio.Event()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._events)

    def enqueue_once(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Queue an event, unless one of that name is queued."""
        if name not in self._enqueued_names and not self._is_closed:
            self._enqueued_names.add(name)
            self._put(_Event(name, work, self._clock.now_s(), None))

    async def call(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Queue a call; returns its result.

        Raises:
            NoController: this broker is not the controller any more; the outcome is unknown.
        """
        if self._is_closed:
            raise NoController("this broker does not control partitions any more")
        if len(self._events) - len(self._enqueued_names) >= MAX_CALLS:
            raise NoController(f"{MAX_CALLS} calls wait for the controller already")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(_Event(name, work, self._clock.now_s(), future))
        return await future

    def _put(self, event: _Event) -> None:
        self._events.append(event)
        self._wake.set()

    async def run(self) -> None:
        """Consume, until cancelled.

        Raises:
            BrokerCtlError: an error that ends the term (see `ends_term`).
        """
        while True:
            while not self._events:
                self._wake.clear()
                await self._wake.wait()
            event = self._events.popleft()
            # From now on the same event may be queued again: the handler may miss later changes.
            if event.future is None:
                self._enqueued_names.discard(event.name)
            elif event.future.done():
                continue  # the caller was cancelled
            waited_s = self._clock.now_s() - event.queued_s
            self._instruments.event_queue_ms.observe(waited_s * 1000)
            await self._handle(event)

    async def _handle(self, event: _Event) -> None:
        began_s = self._clock.now_s()
        try:
            answer = await event.work()
        except asyncio.CancelledError:
            _refuse(event, NoController("this broker does not control partitions any more"))
            raise
        except Exception as error:
            if ends_term(error):
                _refuse(event, NoController(f"this broker does not control any more: {error}"))
                raise
            _refuse(event, error)
            await self._failed(event, error)
        else:
            if event.future is not None and not event.future.done():
                event.future.set_result(answer)
        finally:
            self._instruments.event_s.observe(self._clock.now_s() - began_s, event.name)

    async def _failed(self, event: _Event, error: Exception) -> None:
        """Log and count a failed event; the queue goes on."""
        self._instruments.event_failures.add(event.name)
        if isinstance(error, BrokerCtlError):
            if event.future is None:
                log.warning("the event %r failed: %s; retrying", event.name, error)
        else:
            log.error("the event %r failed", event.name, exc_info=error)
        if event.future is None:
            # The event may come again at once: no busy loop while the store does not answer.
            await asyncio.sleep(PAUSE_S)

    def close(self) -> None:
        """Close at the end of the term: queued calls fail, further events are dropped."""
        self._is_closed = True
        events, self._events = self._events, deque()
        self._enqueued_names.clear()
        for event in events:
            _refuse(event, NoController("this broker does not control partitions any more"))


def _refuse(event: _Event, error: Exception) -> None:
    if event.future is not None and not event.future.done():
        event.future.set_exception(error)
