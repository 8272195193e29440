"""One broker's instructions by HTTP: one at a time, until it acknowledges or is gone."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.controller.transport.ack_timer import AckTimer
from broker_ctl.controller.transport.messages import (
    InstructionEncoder,
    Lot,
    ResponseListener,
    StopAnswer,
)
from broker_ctl.controller.transport.send_queue import RequestBatch, SendQueue
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import LiveBroker
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.instruments.partitions import ControllerInstruments

log = logging.getLogger(__name__)

INSTRUCTIONS_PATH: Final = "/control/v1/instructions"
_RETRY_S: Final = 0.1
_OK: Final = 200
_CONFLICT: Final = 409
_LABEL: Final = "http"

Errors = Mapping[TopicPartition, str]
# Brings a body to the daemon at a web address, and its answer back, within so many seconds.
# Raises `HttpError`.
Call = Callable[[str, bytes, float], Awaitable[HttpReply]]


def calling(http: HttpClient) -> Call:
    """Over the network."""

    async def call(web_url: str, body: bytes, timeout_s: float) -> HttpReply:
        url = f"{web_url}{INSTRUCTIONS_PATH}"
        return await http.request("POST", url, content=body, timeout_s=timeout_s)

    return call


@dataclass(frozen=True, slots=True)
class SenderDependencies:
    """What all senders share."""

    call: Call
    writer: InstructionEncoder
    postbox: ResponseListener
    clock: Clock
    instruments: ControllerInstruments
    acknowledge_s: Callable[[], float]


class HttpSender:
    """What waits for one broker, in one life of it, and what is on its way there."""

    def __init__(self, parts: SenderDependencies, broker: LiveBroker) -> None:
        self._parts = parts
        self._broker = broker
        self._parcels = SendQueue()
        self._on_its_way: Lot = {}
        self._wake = asyncio.Event()
        self._is_silent = False
        self._told = AckTimer(broker.broker_id)

    def put(self, lot: Lot) -> None:
        """More letters."""
        self._told.posted(len(lot), self._parts.clock.now_s())
        self._parcels.put(lot)
        self._wake.set()

    def put_full(self, lot: Lot) -> None:
        """A letter for every replica, in place of what waits."""
        self._told.posted(len(lot), self._parts.clock.now_s())
        self._parcels.put_full(lot)
        self._wake.set()

    def unanswered_stops(self) -> list[ReplicaStop]:
        """Replicas of which it is not known whether they have ended."""
        return [*RequestBatch(self._on_its_way).stops(), *self._parcels.stops()]

    async def run(self) -> None:
        """Send, until cancelled."""
        while True:
            parcel = self._parcels.take()
            if parcel is None:
                self._told.answered(self._parts.clock.now_s())
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                await self._send(parcel)
            except Exception:
                # A fault of ours must not leave a broker untold for ever: it is told all anew.
                log.exception("instructions to broker %d", self._broker.broker_id)
                await asyncio.sleep(_RETRY_S)
                self._parts.postbox.overflowed(self._broker.broker_id)

    async def _send(self, parcel: RequestBatch) -> None:
        writer = self._parts.writer
        make = writer.full_instructions if parcel.is_full else writer.instructions
        # A copy: answers take from it while instructions are still made of the parcel.
        self._on_its_way = dict(parcel.lot)
        for lot, body in make(self._broker, parcel.lot):
            await self._deliver(lot, body)
        self._on_its_way = {}

    async def _deliver(self, lot: Lot, body: bytes) -> None:
        """Until it is acknowledged or refused; what failed may have been applied, twice is once."""
        parts, began_s = self._parts, self._parts.clock.now_s()
        while True:
            result, errors = await self._attempt(body)
            parts.instruments.instructions.add(_LABEL, result)
            if result != "failed":
                break
            if not self._is_silent and parts.clock.now_s() - began_s >= parts.acknowledge_s():
                self._is_silent = True
                parts.postbox.fell_silent(self._broker.broker_id)
            await asyncio.sleep(_RETRY_S)
        if result == "acknowledged":
            took_s = parts.clock.now_s() - began_s
            parts.instruments.acknowledge_ms.observe(took_s * 1000, _LABEL)
            if self._is_silent:
                self._is_silent = False
                parts.postbox.spoke_again(self._broker.broker_id)
            self._answered(lot, errors)

    async def _attempt(self, body: bytes) -> tuple[str, Errors]:
        parts = self._parts
        try:
            reply = await parts.call(self._broker.web_url, body, parts.acknowledge_s())
            if reply.status == _OK:
                return "acknowledged", _errors(reply)
        except HttpError as error:
            log.debug("broker %d: %s", self._broker.broker_id, error)
            return "failed", {}
        if reply.status != _CONFLICT:
            log.debug("broker %d answered with %d", self._broker.broker_id, reply.status)
            return "failed", {}
        # It has registered anew, or another controller was elected: the watches will tell.
        log.info("broker %d refused an instruction: %s", self._broker.broker_id, reply.body[:500])
        return "refused", {}

    def _answered(self, lot: Lot, errors: Errors) -> None:
        for partition, reason in errors.items():
            log.warning("broker %d: %s: %s", self._broker.broker_id, partition, reason)
        answers = [
            StopAnswer(self._broker.broker_id, letter, errors.get(partition))
            for partition, letter in lot.items()
            if isinstance(letter, ReplicaStop)
        ]
        if answers:
            for answer in answers:
                self._on_its_way.pop(answer.stop.partition, None)
            self._parts.postbox.stops_answered(answers)


def _errors(reply: HttpReply) -> Errors:
    """Why replicas are not what they were told to be.

    Raises:
        HttpError: the answer does not fit.
    """
    try:
        rows: Any = reply.json()["errors"]
        return {TopicPartition(str(topic), int(number)): str(why) for topic, number, why in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise HttpError(f"an answer that does not fit: {error!r}") from error
