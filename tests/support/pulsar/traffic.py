"""Messages for a Pulsar cluster, from a process of its own, each counted by id.

    python -m tests.support.pulsar.traffic SERVICE_URL FLOWS.json SECONDS OUTCOME.json

One producer and one consumer a topic. Ids of a topic count from 0 and are the first eight bytes of
a message; a send is never given up, so what was sent may arrive twice but must arrive. It says
``ready`` when all are connected, sends until the time is over or SIGTERM comes, waits until all
that was acknowledged has been received (or 30 s), and writes the outcome. Instants are
``time.monotonic`` seconds, which all processes of the machine share.
"""

import json
import signal
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pulsar

_T = TypeVar("_T")

_ID: Final = struct.Struct("!q")
_STEP_S: Final = 0.01
_DRAIN_S: Final = 30.0
_CONNECT_S: Final = 60.0
_AGAIN_S: Final = 0.5
_PENDING: Final = 100_000
_SUBSCRIPTION: Final = "counted"


@dataclass(frozen=True, slots=True)
class Flow:
    """What is sent to one topic; a message has at least 8 bytes."""

    topic: str
    per_second: float
    size_bytes: int = 100


@dataclass(slots=True)
class Sent:
    """What became of the messages of one topic.

    Attributes:
        at_s: when each send began, by id.
        took_s: until it was acknowledged, by id; None where it never was, or was refused.
        received: how often each id arrived.
        disordered: ids that arrived for the first time after a higher one.
    """

    at_s: list[float] = field(default_factory=list)
    took_s: list[float | None] = field(default_factory=list)
    received: Counter[int] = field(default_factory=Counter)
    disordered: int = 0


# A process of its own has nobody to be woken by.
_pause: Final = threading.Event().wait


def _connected(connect: Callable[[], _T]) -> _T:
    """Connect with retries: brokers that race for one bundle fail lookups for a moment."""
    deadline_s = time.monotonic() + _CONNECT_S
    while True:
        try:
            return connect()
        except pulsar.PulsarException:
            if time.monotonic() > deadline_s:
                raise
            _pause(_AGAIN_S)


class _Lane:
    """One topic: its producer, its consumer, and the outcome of both."""

    def __init__(self, client: pulsar.Client, flow: Flow) -> None:
        self._flow = flow
        self._padding = bytes(flow.size_bytes - _ID.size)
        self.sent = Sent()
        self._answered = 0
        self._acknowledged = 0
        self._highest = -1
        self._consumer = _connected(
            lambda: client.subscribe(
                flow.topic,
                _SUBSCRIPTION,
                initial_position=pulsar.InitialPosition.Earliest,
                message_listener=self._on_message,
            )
        )
        self._producer = _connected(
            lambda: client.create_producer(
                flow.topic,
                send_timeout_millis=0,
                max_pending_messages=_PENDING,
                block_if_queue_full=False,
                batching_enabled=True,
                batching_max_publish_delay_ms=2,
            )
        )

    def send_due(self, elapsed_s: float) -> None:
        """Send what is due by now."""
        sent = self.sent
        for number in range(len(sent.at_s), int(elapsed_s * self._flow.per_second) + 1):
            sent.at_s.append(time.monotonic())
            sent.took_s.append(None)
            content = _ID.pack(number) + self._padding
            self._producer.send_async(content, partial(self._on_sent, number))

    def is_drained(self) -> bool:
        """Whether each send was answered, and all that was acknowledged has arrived."""
        sent = self.sent
        return self._answered == len(sent.at_s) and len(sent.received) >= self._acknowledged

    def _on_sent(self, number: int, result: pulsar.Result, _: pulsar.MessageId) -> None:
        self._answered += 1
        if result == pulsar.Result.Ok:
            self._acknowledged += 1
            self.sent.took_s[number] = time.monotonic() - self.sent.at_s[number]

    def _on_message(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        (number,) = _ID.unpack_from(message.data())
        if number < self._highest and not self.sent.received[number]:
            self.sent.disordered += 1
        self._highest = max(self._highest, number)
        self.sent.received[number] += 1
        consumer.acknowledge(message)


def main(arguments: Sequence[str]) -> None:
    """Send, count, and write the outcome."""
    service_url, flows_file, seconds, outcome_file = arguments
    flows = [Flow(**flow) for flow in json.loads(Path(flows_file).read_text(encoding="utf-8"))]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, f"{outcome_file}.log")
    client = pulsar.Client(service_url, io_threads=1, message_listener_threads=1, logger=logger)
    lanes = {flow.topic: _Lane(client, flow) for flow in flows}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    began_s = time.monotonic()
    while (elapsed_s := time.monotonic() - began_s) < float(seconds) and not ended.is_set():
        for lane in lanes.values():
            lane.send_due(elapsed_s)
        ended.wait(_STEP_S)
    drained_s = time.monotonic() + _DRAIN_S
    while time.monotonic() < drained_s and not all(lane.is_drained() for lane in lanes.values()):
        _pause(_STEP_S)
    client.close()
    outcome = {
        topic: {
            "at_s": lane.sent.at_s,
            "took_s": lane.sent.took_s,
            "received": dict(lane.sent.received),
            "disordered": lane.sent.disordered,
        }
        for topic, lane in lanes.items()
    }
    Path(outcome_file).write_text(json.dumps(outcome), encoding="utf-8")


def read_outcome(file: Path) -> dict[str, Sent]:
    """What `main` wrote, by topic."""
    read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {
        topic: Sent(
            sent["at_s"],
            sent["took_s"],
            Counter({int(number): times for number, times in sent["received"].items()}),
            sent["disordered"],
        )
        for topic, sent in read.items()
    }


if __name__ == "__main__":
    main(sys.argv[1:])
