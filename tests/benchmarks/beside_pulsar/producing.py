"""The producers, in a process of their own.

    python -m tests.benchmarks.beside_pulsar.producing SERVICE_URL FLOWS.json OUTCOME.json

Says ``ready`` when all are connected, and obeys lines: ``go`` sends, ``step`` sends as after the
step, and ``stop`` (or the end of them) writes the slow sends and ends. Sends are never given up.
"""

import json
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Final

import pulsar

SIZE_BYTES: Final = 1024
_TICK_S: Final = 0.01
# Faster sends are not counted as interruptions.
_SLOW_S: Final = 0.02
_PENDING: Final = 50_000
_LAST_S: Final = 20.0


class _Lane:
    """One topic."""

    def __init__(self, client: pulsar.Client, topic: str, before: float, after: float) -> None:
        self.rates = before, after
        self.slow: list[tuple[float, float]] = []
        self.failed = 0
        self.sent = 0
        self._due = 0.0
        self._answered = 0
        self._producer = client.create_producer(
            topic,
            send_timeout_millis=0,
            max_pending_messages=_PENDING,
            block_if_queue_full=False,
            batching_enabled=True,
            batching_max_publish_delay_ms=2,
        )

    @property
    def is_answered(self) -> bool:
        return self._answered == self.sent

    def send_due(self, rate: float, passed_s: float) -> None:
        self._due += rate * passed_s
        while self._due >= 1:
            self._due -= 1
            self.sent += 1
            self._producer.send_async(_CONTENT, partial(self._on_sent, time.monotonic()))

    def _on_sent(self, at_s: float, result: pulsar.Result, _: pulsar.MessageId) -> None:
        self._answered += 1
        took_s = time.monotonic() - at_s
        if result != pulsar.Result.Ok:
            self.failed += 1
        elif took_s >= _SLOW_S:
            self.slow.append((round(at_s, 3), round(took_s, 3)))


_CONTENT: Final = bytes(SIZE_BYTES)


def main(service_url: str, flows_file: str, outcome_file: str) -> None:
    """Send until the line ``stop``."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, f"{outcome_file}.log")
    client = pulsar.Client(service_url, io_threads=1, logger=logger)
    rows = json.loads(Path(flows_file).read_text(encoding="utf-8"))
    lanes = {row["topic"]: _Lane(client, **row) for row in rows}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    phase, ended = [0], threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "step":
                phase[0] = 1
            elif line.strip() == "stop":
                break
        ended.set()

    assert sys.stdin.readline().strip() == "go"
    threading.Thread(target=listen, daemon=True).start()
    last_s = time.monotonic()
    while not ended.wait(_TICK_S):
        now_s = time.monotonic()
        for lane in lanes.values():
            lane.send_due(lane.rates[phase[0]], now_s - last_s)
        last_s = now_s
    end_s, never = time.monotonic() + _LAST_S, threading.Event()
    while time.monotonic() < end_s and not all(lane.is_answered for lane in lanes.values()):
        never.wait(_TICK_S)
    outcome = {
        "sent": sum(lane.sent for lane in lanes.values()),
        "failed": sum(lane.failed for lane in lanes.values()),
        "unanswered": sum(not lane.is_answered for lane in lanes.values()),
        "slow": {topic: lane.slow for topic, lane in lanes.items()},
    }
    Path(outcome_file).write_text(json.dumps(outcome), encoding="utf-8")
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
