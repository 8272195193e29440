"""Instructions to one broker by HTTP: one at a time, until it acknowledges or is gone."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.controller.transport.ack_timer import AckTimer
from broker_ctl.controller.transport.messages import (
    BrokerRequests,
    FullPart,
    FullRequests,
    InstructionEncoder,
    ResponseListener,
    StopResponse,
)
from broker_ctl.controller.transport.send_queue import RequestBatch, SendQueue
from broker_ctl.core.model.batches import batched
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.replica_spans import MAX_SPANS
from broker_ctl.core.partitions.values import LiveBroker
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpReply
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.peer_http import PeerHttp, Source, urls_at
from broker_ctl.retry import Backoff, is_any, retry

log = logging.getLogger(__name__)

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
            Source.REPLICA_BROKER,
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
