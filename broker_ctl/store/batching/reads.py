"""The lane of reads."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Final, TypeVar

from broker_ctl.errors import StoreError
from broker_ctl.store.batching.batch_rules import BatchMetrics
from broker_ctl.store.batching.entries import OVERHEAD_BYTES, RESULT_BYTES, ReadEntry, ReplySizes
from broker_ctl.store.batching.lane import Lane, LaneDependencies, Window
from broker_ctl.store.interface import Answer, Aspect, RequestClass, Versioned

T = TypeVar("T")

Answers = Sequence[Answer] | StoreError

_MOST_LESSONS: Final = 32


class Reads:
    """Batches of reads, and their answers in the order in which they were asked for."""

    def __init__(
        self, shared: LaneDependencies, window: Window, on_leave: Callable[[ReadEntry], None]
    ) -> None:
        rules = shared.rules
        self._shared = shared
        self._sizes = ReplySizes()
        # Sizes of lists of children, which are unrelated to those of payloads.
        self._name_sizes = ReplySizes()
        # Half of the frame: the sizes are estimates, and the other half absorbs their errors.
        self._most_reply_bytes = rules.max_frame_bytes / 2
        self.lane = Lane[ReadEntry](
            rules,
            self._most_reply_bytes,
            window,
            is_eager=shared.request_class is not RequestClass.BULK,
            is_settling=partial(shared.settling.is_behind, shared.request_class),
            cut=self._cut,
            send=self._start,
        )
        self._on_leave = on_leave
        # Sent batches in order, and the answers of batches that overtook earlier ones: a caller
        # must not get its answer before a caller that asked earlier.
        self._sent: deque[list[ReadEntry]] = deque()
        self._early: dict[int, Answers] = {}

    def put(self, entry: ReadEntry) -> None:
        """Queue a read for the next batch; the entry has its turn on its path."""
        is_list = entry.aspect is Aspect.CHILDREN
        kind = entry.kind = (self._name_sizes if is_list else self._sizes).kind(entry.path)
        entry.size_bytes = RESULT_BYTES + kind.likely_bytes
        self.lane.put(entry)

    async def alone(self, read: Awaitable[T], kind: str | None) -> T:
        """A read that its caller sends, admitted by `Lane.enter_alone`."""
        clock, metrics = self._shared.clock, self._shared.metrics
        began_s, is_answered = clock.now_s(), False
        try:
            answer = await read
            is_answered = True
            return answer
        finally:
            took_s = clock.now_s() - began_s
            self.lane.on_reply(1)
            if metrics is not None:
                metrics.observe_alone(kind, took_s, is_success=is_answered)

    def _cut(self, queue: deque[ReadEntry], most: int) -> list[ReadEntry]:
        batch: list[ReadEntry] = []
        request_bytes, reply_bytes = 0, 0.0
        max_bytes = self._shared.rules.max_bytes
        while queue and len(batch) < most:
            entry = queue[0]
            if entry.future.done():  # given up while it waited
                self._discard(queue.popleft())
                continue
            request_bytes += OVERHEAD_BYTES + len(entry.path)
            reply_bytes += entry.size_bytes
            if batch and (request_bytes > max_bytes or reply_bytes > self._most_reply_bytes):
                break
            batch.append(queue.popleft())
        self._shared.waiting.remove(batch)
        return batch

    def _discard(self, entry: ReadEntry) -> None:
        self.lane.discard(entry)
        self._shared.waiting.remove((entry,))
        self._on_leave(entry)

    def _start(self, batch: list[ReadEntry]) -> None:
        shared = self._shared
        self._sent.append(batch)
        with shared.metrics.sending(batch) if shared.metrics else nullcontext():
            shared.tasks.start(self._read(batch, shared.deadline_s(batch)), "reads")

    async def _read(self, batch: list[ReadEntry], deadline_s: float) -> None:
        answers: Answers = StoreError("the read was given up")
        began_s, in_flight = self._shared.clock.now_s(), self.lane.operations
        try:
            answers = await self._shared.store.read_many(batch, deadline_s)
            self.lane.on_round_trip(in_flight, self._shared.clock.now_s() - began_s)
        except StoreError as error:
            answers = error
        finally:
            self._answered(batch, answers)

    def _answered(self, batch: list[ReadEntry], answers: Answers) -> None:
        # Send the next batch before this one is delivered: the callers of this one run for a while.
        self.lane.on_reply(len(batch))
        self._early[id(batch)] = answers
        while self._sent and (found := self._early.pop(id(self._sent[0]), None)) is not None:
            entries = self._sent.popleft()
            if isinstance(found, StoreError):
                found = [found] * len(entries)
            else:
                self._learn_sizes(entries, found)
            shared = self._shared
            settled = list(zip(entries, found, strict=True))
            shared.settling.put(shared.request_class, settled, self._settle)

    @staticmethod
    def _learn_sizes(batch: list[ReadEntry], answers: Sequence[Answer]) -> None:
        # A sample of a large batch is as good an estimate as all of it.
        step = 1 + len(batch) // _MOST_LESSONS
        for entry, answer in zip(batch[::step], answers[::step], strict=True):
            if isinstance(answer, Versioned):
                entry.kind.observe(len(answer.data))
            elif isinstance(answer, list):
                entry.kind.observe(sum(map(len, answer)) + 4 * len(answer))

    def _settle(self, settled: Sequence[tuple[ReadEntry, Answer]]) -> None:
        for entry, answer in settled:
            if isinstance(answer, StoreError):
                entry.fail(answer)
            elif not entry.future.done():
                entry.future.set_result(answer)
            self._on_leave(entry)
        if self._shared.metrics is not None:
            _measure(settled, self._shared.metrics)


def _measure(settled: Sequence[tuple[ReadEntry, Answer]], metrics: BatchMetrics) -> None:
    # Pulsar times gets, and no other reads.
    gets = [(entry, answer) for entry, answer in settled if entry.aspect is Aspect.NODE]
    failed = [entry for entry, answer in gets if isinstance(answer, StoreError)]
    if failed:
        metrics.observe_failure("get", failed)
    metrics.observe_success(
        "get", [entry for entry, answer in gets if not isinstance(answer, StoreError)]
    )
