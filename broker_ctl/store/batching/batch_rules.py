"""Rules of batching, as values; sizes of replies, and metrics of batches."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.store.batching.entries import BatchEntry

# Rules of batching, as values.


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Bounds of each lane (docs: pulsar-batching).

    Attributes:
        is_adaptive: send at once while nothing is in flight, and on each reply; otherwise only on
            the delay or when a batch is full, as Pulsar does.
        max_delay_s: longest wait for a batch, unless max_in_flight holds it back.
        max_operations, max_bytes: largest batch; a full one is sent at once.
        max_frame_bytes: jute.maxbuffer, which no request and no reply may reach.
        max_in_flight: batches of a lane without a reply. A heartbeat queues behind whatever is on
            the connection, so the bound is low; at two or three a burst of requests waits for it.
        follows_round_trip: bulk requests are also bound by a window that follows the round trip.
        max_waiting: requests of a lane that may wait; one more is refused.
        operation_timeout_s: every request ends by then.
    """

    is_adaptive: bool = True
    max_delay_s: float = 0.005
    max_operations: int = 1000
    max_bytes: int = 128 * 1024
    max_frame_bytes: int = 0xFFFFF
    max_in_flight: int = 8
    follows_round_trip: bool = True
    max_waiting: int = 100_000
    operation_timeout_s: float = 30.0


# Metrics of batches (docs: pulsar-store-metrics).


class BatchMetrics:
    """The series of one store, with its name as their label.

    On the clock of the process: a loop's time does not advance within a turn, and uvloop's counts
    whole milliseconds.
    """

    def __init__(self, instruments: StoreInstruments, name: str, clock: Clock) -> None:
        self._clock = clock
        self._queue_wait = instruments.queue_wait_ms.labelled(name)
        self._execute = instruments.execute_ms.labelled(name)
        self._batch_size = instruments.batch_size.labelled(name)
        self._latency = {
            (kind, is_success): instruments.latency_ms.labelled(
                name, kind, "success" if is_success else "fail"
            )
            for kind in ("get", "put", "del")
            for is_success in (True, False)
        }
        self._put_bytes = instruments.put_bytes
        self._rollbacks = instruments.multi_rollbacks
        self._name = name

    @contextmanager
    def sending(self, batch: Sequence[BatchEntry]) -> Iterator[None]:
        """Time the first step of the task that packs a batch and hands it to the connection.

        A loop runs ready callbacks in order, so callbacks that are scheduled directly before and
        after the task read the clock as its first step begins and ends.
        """
        loop, began_s = asyncio.get_running_loop(), 0.0

        def begin() -> None:
            nonlocal began_s
            began_s = self._clock.now_s()
            self._batch_size.observe(len(batch))
            self._queue_wait.observe_many([(began_s - entry.made_s) * 1000 for entry in batch])

        def end() -> None:
            self._execute.observe((self._clock.now_s() - began_s) * 1000)

        loop.call_soon(begin)
        yield
        loop.call_soon(end)

    def observe_alone(self, kind: str | None, took_s: float, *, is_success: bool) -> None:
        """Record a request that its caller sent without waiting, as a batch of one."""
        self._batch_size.observe(1)
        self._queue_wait.observe(0.0)
        if kind is not None:
            self._latency[kind, is_success].observe(took_s * 1000)

    def observe_success(self, kind: str, entries: Iterable[BatchEntry]) -> None:
        """Record the latency of answered requests of one kind."""
        self._latency[kind, True].observe_many(self._took_ms(entries))

    def observe_failure(self, kind: str, entries: Iterable[BatchEntry]) -> None:
        """Record the latency of failed requests of one kind."""
        self._latency[kind, False].observe_many(self._took_ms(entries))

    def count_bytes(self, size_bytes: int) -> None:
        """Add the size of written values."""
        self._put_bytes.add(self._name, amount=size_bytes)

    def count_rollback(self) -> None:
        """Count a batch that one of its writes rolled back."""
        self._rollbacks.add(self._name)

    def _took_ms(self, entries: Iterable[BatchEntry]) -> list[float]:
        now_s = self._clock.now_s()
        return [(now_s - entry.made_s) * 1000 for entry in entries]
