"""One sender for each broker, one request at a time (docs: kafka-failure-kinds).

Transport by HTTP: one sender for each broker (docs: kafka-failure-kinds, kafka-design-v3).

    requests -> queue of the broker -> one instruction in flight -> acknowledged

While an instruction is in flight the next requests are queued, for each partition only the newest.
A failed instruction is sent again until the broker acknowledges it or is gone.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.controller.transport.messages import (
    BROKER_GONE,
    BrokerRequests,
    FullPart,
    FullRequests,
    InstructionEncoder,
    Requests,
    RequestsByBroker,
    ResponseListener,
    StopResponse,
)
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.instructions import MAX_SPANS, ReplicaStop
from broker_ctl.core.partitions.values import BrokersChanged, LiveBroker, TopicPartition
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpReply
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.peer_http import AddressSource, PeerHttp, urls_at
from broker_ctl.retry import Backoff, is_any, retry
from broker_ctl.store.interface import Operation
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Time that brokers take to acknowledge requests: one log line per burst.


class AckTimer:
    """Measures one broker, from the first request until none is pending."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._requests = 0
        self._since_s = 0.0

    def add(self, requests: int, now_s: float) -> None:
        """Count requests that were queued or sent."""
        if not self._requests:
            self._since_s = now_s
        self._requests += requests

    def finish(self, now_s: float) -> None:
        """No request is queued or in flight."""
        if self._requests:
            took_s = now_s - self._since_s
            log.info(
                "broker %d acknowledged %d partition updates in %.3f s",
                self._broker_id,
                self._requests,
                took_s,
            )
        self._requests = 0


# Queue of requests to one broker: the newest of each partition, stops kept in order.


@dataclass(frozen=True, slots=True)
class RequestBatch:
    """Requests that go in one instruction, or in several consecutive ones.

    Attributes:
        is_full: it has an update of each replica of the broker, and no stop.
    """

    requests: Requests
    is_full: bool = False

    def stops(self) -> list[ReplicaStop]:
        """Stops in this batch."""
        if self.is_full:
            return []
        return [request for request in self.requests.values() if isinstance(request, ReplicaStop)]


class SendQueue:
    """Batches for a broker; bounded by the number of its replicas and stops."""

    def __init__(self) -> None:
        self._batches: deque[RequestBatch] = deque()
        # Requests of the last batch; None: there is none, or it is full.
        self._last: BrokerRequests | None = None
        self._has_stops = False

    def __bool__(self) -> bool:
        return bool(self._batches)

    def put(self, requests: BrokerRequests) -> None:
        """Add requests; of each partition only the newest is sent."""
        last = self._last
        if last is None or self._restarts_stopped(last, requests):
            last = self._last = {}
            self._batches.append(RequestBatch(last))
            self._has_stops = False
        last.update(requests)
        self._has_stops |= any(isinstance(request, ReplicaStop) for request in requests.values())

    def _restarts_stopped(self, last: BrokerRequests, requests: BrokerRequests) -> bool:
        """Whether a replica with a queued stop gets an update.

        The stop goes first, and by itself: it may be of an earlier topic by that name (C1).
        """
        return self._has_stops and any(
            isinstance(last.get(partition), ReplicaStop) and not isinstance(request, ReplicaStop)
            for partition, request in requests.items()
        )

    def put_full(self, requests: FullRequests) -> None:
        """Replace the queue by an update of every replica of the broker; queued stops are kept."""
        stops = {stop.partition: stop for stop in self.stops()}
        self._batches = deque([RequestBatch(requests, is_full=True)])
        self._last = None
        self._has_stops = False
        if stops:
            self.put({**stops})

    def pop(self) -> RequestBatch | None:
        """Remove and return the next batch; None: the queue is empty."""
        if not self._batches:
            return None
        batch = self._batches.popleft()
        if not self._batches:
            self._last = None
        return batch

    def stops(self) -> list[ReplicaStop]:
        """All queued stops."""
        return [stop for batch in self._batches for stop in batch.stops()]


# Instructions to one broker by HTTP: one at a time, until it acknowledges or is gone.


T = TypeVar("T")

INSTRUCTIONS_PATH: Final = "/control/v1/instructions"
_BACKOFF: Final = Backoff(first_s=0.1, factor=2.0, max_s=0.2)
_AFTER_BUG_S: Final = 0.1
# After an instruction with this number of requests more are about to come, as in a failover: they
# go together, this long after the start of that one. Otherwise a broker would get hundreds of
# instructions, each of which costs both sides as much as the updates of fifty partitions.
MANY_REQUESTS: Final = 50
GATHER_S: Final = 0.05
_OK: Final = 200
_BAD_REQUEST: Final = 400
_CONFLICT: Final = 409
# Of replicas that failed; of a broken disk there are thousands.
_MAX_LOGGED: Final = 5
HTTP: Final = "http"

Errors = Mapping[TopicPartition, str]
# Posts a body to the daemon of a broker with a timeout in seconds. Raises `HttpError`.
Call = Callable[[LiveBroker, bytes, float], Awaitable[HttpReply]]


def http_call(http: PeerHttp) -> Call:
    """Build the `Call` that goes over the network."""

    async def call(broker: LiveBroker, body: bytes, timeout_s: float) -> HttpReply:
        urls = urls_at(broker.daemon, broker.web_url)
        return await http.request(
            "POST",
            urls,
            INSTRUCTIONS_PATH,
            AddressSource.REPLICA_BROKER,
            content=body,
            timeout_s=timeout_s,
        )

    return call


@dataclass(frozen=True, slots=True)
class SenderDependencies:
    """Dependencies that all senders share."""

    call: Call
    encoder: InstructionEncoder
    listener: ResponseListener
    clock: Clock
    instruments: ControllerInstruments
    acknowledge_s: Callable[[], float]
    rng: random.Random


class HttpSender:
    """Queue and in-flight requests of one broker, for one broker epoch."""

    def __init__(self, dependencies: SenderDependencies, broker: LiveBroker) -> None:
        self._dependencies = dependencies
        self._broker = broker
        self._queue = SendQueue()
        # Stops of the batch that is being sent.
        self._stops: dict[TopicPartition, ReplicaStop] = {}
        self._wake = asyncio.Event()
        self._due_s = 0.0
        self._is_unresponsive = False
        self._ack_timer = AckTimer(broker.broker_id)

    def put(self, requests: BrokerRequests) -> None:
        """Queue more requests."""
        self._ack_timer.add(len(requests), self._dependencies.clock.now_s())
        self._queue.put(requests)
        self._wake.set()

    def put_full(self, requests: FullRequests) -> None:
        """Queue an update of every replica, replacing the queued ones."""
        self._ack_timer.add(len(requests), self._dependencies.clock.now_s())
        self._queue.put_full(requests)
        self._wake.set()

    def pending_stops(self) -> list[ReplicaStop]:
        """Stops that are not answered yet."""
        return [*self._stops.values(), *self._queue.stops()]

    async def run(self) -> None:
        """Send, until cancelled."""
        while True:
            await self._wait_due()
            batch = self._queue.pop()
            if batch is None:
                self._ack_timer.finish(self._dependencies.clock.now_s())
                self._wake.clear()
                await self._wake.wait()
                continue
            if len(batch.requests) >= MANY_REQUESTS:
                self._due_s = self._dependencies.clock.now_s() + GATHER_S
            try:
                await self._send(batch)
            except Exception:
                # A bug must not leave a broker without updates: it gets a full instruction.
                log.exception(
                    "sending to broker %d failed; a full instruction follows",
                    self._broker.broker_id,
                )
                await asyncio.sleep(_AFTER_BUG_S)
                self._dependencies.listener.queue_overflowed(self._broker.broker_id)

    async def _wait_due(self) -> None:
        """Wait while requests are gathered for the next instruction; see `GATHER_S`."""
        left_s = self._due_s - self._dependencies.clock.now_s()
        if self._queue and left_s > 0:
            await asyncio.sleep(left_s)

    async def _send(self, batch: RequestBatch) -> None:
        encoder = self._dependencies.encoder
        if batch.is_full:
            sent = 0
            for parts in batched(encoder.split_full(batch.requests), MAX_SPANS):
                sent += await self._send_differing(parts)
            broker_id, replicas = self._broker.broker_id, len(batch.requests)
            log.info(
                "broker %d was sent the states of %d of %d replicas", broker_id, sent, replicas
            )
            return
        self._stops = {stop.partition: stop for stop in batch.stops()}
        for requests, body in encoder.encode(self._broker, batch.requests):
            await self._send_requests(requests, body)
        self._stops = {}

    async def _send_differing(self, parts: Sequence[FullPart]) -> int:
        """Send the parts of a full instruction that the broker does not have, by their digests.

        Returns the number of replicas in them.
        """
        encoder = self._dependencies.encoder
        body = encoder.encode_digests(self._broker, parts)
        differing = await self._deliver(body, lambda reply: _differing(reply, parts)) or ()
        for part in differing:
            await self._send_requests(part.requests, encoder.encode_part(self._broker, part))
        return sum(len(part.requests) for part in differing)

    async def _send_requests(self, requests: BrokerRequests, body: bytes) -> None:
        errors = await self._deliver(body, _errors)
        if errors is not None:
            self._on_acknowledged(requests, errors)

    async def _deliver(self, body: bytes, read: Callable[[HttpReply], T]) -> T | None:
        """Retry until acknowledged or refused; applying an instruction twice is harmless.

        Returns what ``read`` makes of the answer, or None if the broker refused. ``read`` raises
        `HttpError` for an answer that acknowledges nothing.
        """
        dependencies, began_s = self._dependencies, self._dependencies.clock.now_s()

        async def attempt() -> T | None:
            try:
                return await self._attempt(body, read)
            except HttpError:
                self._count("failed")
                if dependencies.clock.now_s() - began_s >= dependencies.acknowledge_s():
                    self._report_unresponsive()
                raise

        answer = await retry(
            attempt,
            f"broker {self._broker.broker_id} did not acknowledge an instruction",
            rng=dependencies.rng,
            judge=is_any(HttpError),
            backoff=_BACKOFF,
            level=logging.DEBUG,
        )
        if answer is None:
            self._count("refused")
            return None
        self._count("acknowledged")
        took_s = dependencies.clock.now_s() - began_s
        dependencies.instruments.acknowledge_s.observe(took_s, HTTP)
        if self._is_unresponsive:
            self._is_unresponsive = False
            dependencies.listener.responsive(self._broker.broker_id)
        return answer

    def _count(self, result: str) -> None:
        self._dependencies.instruments.instructions.add(HTTP, result)

    def _report_unresponsive(self) -> None:
        if not self._is_unresponsive:
            self._is_unresponsive = True
            self._dependencies.listener.unresponsive(self._broker.broker_id)

    async def _attempt(self, body: bytes, read: Callable[[HttpReply], T]) -> T | None:
        """Send once; returns None if the broker refused.

        Raises:
            HttpError: there was no answer, or one that acknowledges nothing.
        """
        timeout_s = self._dependencies.acknowledge_s()
        reply = await self._dependencies.call(self._broker, body, timeout_s)
        if reply.status != _CONFLICT:
            return read(reply)
        # The broker registered again or another controller was elected: the watches will show it.
        log.info("broker %d refused an instruction: %s", self._broker.broker_id, reply.body[:500])
        return None

    def _on_acknowledged(self, requests: BrokerRequests, errors: Errors) -> None:
        failed = [each for each in requests if each in errors]
        if failed:
            reasons = ", ".join(f"{each} {errors[each]:.40}" for each in failed[:_MAX_LOGGED])
            broker_id = self._broker.broker_id
            log.warning("broker %d failed %d replicas: %s", broker_id, len(failed), reasons)
        responses = [
            StopResponse(self._broker.broker_id, request, errors.get(partition))
            for partition, request in requests.items()
            if isinstance(request, ReplicaStop)
        ]
        if responses:
            for response in responses:
                self._stops.pop(response.stop.partition, None)
            self._dependencies.listener.on_stop_responses(responses)


def _errors(reply: HttpReply) -> Errors:
    """Why replicas do not have the requested state.

    Raises:
        HttpError: the answer is another one, or malformed.
    """
    with _reading(reply) as answer:
        rows = answer["errors"]
        return {TopicPartition(str(topic), int(number)): str(why) for topic, number, why in rows}


def _differing(reply: HttpReply, parts: Sequence[FullPart]) -> list[FullPart]:
    """The parts of a full instruction that the broker does not have; raises as `_errors`."""
    if reply.status == _BAD_REQUEST:
        return list(parts)  # its release does not know digests
    with _reading(reply) as answer:
        named = list(answer.get("differing", range(len(parts))))
        if not all(type(index) is int and index in range(len(parts)) for index in named):
            raise ValueError(f"{named!r:.80} are not spans of these {len(parts)}")
        return [parts[index] for index in sorted({*named})]


@contextmanager
def _reading(reply: HttpReply) -> Iterator[dict[str, Any]]:
    if reply.status != _OK:
        raise HttpError(f"it answered with {reply.status}")
    try:
        yield reply.json()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise HttpError(f"malformed answer: {error!r}") from error


class HttpTransport:
    """`Transport` that calls the daemons of brokers."""

    def __init__(self, dependencies: SenderDependencies) -> None:
        self._dependencies = dependencies
        self._senders: dict[int, tuple[HttpSender, asyncio.Task[None]]] = {}
        self._tasks = TaskScope("instructions")

    def operations(self, by_broker: RequestsByBroker) -> Sequence[Operation]:  # noqa: ARG002
        """No operations: HTTP needs nothing in the transaction."""
        return ()

    async def prepare_retry(self, by_broker: RequestsByBroker) -> None:
        """Does nothing: no operation can have been refused."""

    def on_written(self, by_broker: RequestsByBroker, operations: Sequence[Operation]) -> None:  # noqa: ARG002
        """See `Transport.on_written`."""
        for broker_id, requests in by_broker.items():
            if broker_id in self._senders:
                self._senders[broker_id][0].put(requests)

    async def send(self, by_broker: RequestsByBroker) -> None:
        """See `Transport.send`."""
        self.on_written(by_broker, ())

    async def send_full(self, broker_id: int, requests: FullRequests) -> None:
        """See `Transport.send_full`."""
        if broker_id in self._senders:
            self._senders[broker_id][0].put_full(requests)

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:
        """See `Transport.on_brokers_changed`."""
        # A new broker may already have a sender if an earlier event failed halfway.
        for broker_id in changed.dead | changed.bounced | changed.new:
            if broker_id in self._senders:
                sender, task = self._senders.pop(broker_id)
                task.cancel()
                self._fail_stops(broker_id, sender)
        for broker_id in changed.new | changed.bounced:
            sender = HttpSender(self._dependencies, changed.live[broker_id])
            task = self._tasks.keep(sender.run(), f"to broker {broker_id}")
            self._senders[broker_id] = sender, task

    def _fail_stops(self, broker_id: int, sender: HttpSender) -> None:
        """Report pending stops as failed, since a broker that is gone does not answer."""
        failed = [StopResponse(broker_id, stop, BROKER_GONE) for stop in sender.pending_stops()]
        if failed:
            self._dependencies.listener.on_stop_responses(failed)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._tasks.close()
