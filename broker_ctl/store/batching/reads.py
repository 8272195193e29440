"""The lane of reads."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from broker_ctl.errors import StoreError
from broker_ctl.store.batching.entries import OVERHEAD_BYTES, ReadEntry
from broker_ctl.store.batching.lane import Lane
from broker_ctl.store.batching.meter import Meter
from broker_ctl.store.batching.rules import BatchRules
from broker_ctl.store.batching.settling import Settling
from broker_ctl.store.batching.sizes import RESULT_BYTES, ReplySizes
from broker_ctl.store.batching.waiting import Waiting
from broker_ctl.store.interface import Answer, Aspect, BulkStore, Versioned
from broker_ctl.tasks import TaskScope

Answers = Sequence[Answer] | StoreError

_MOST_LESSONS: Final = 32


class Reads:
    """Batches of reads, and their answers in the order in which they were asked for."""

    def __init__(
        self,
        store: BulkStore,
        rules: BatchRules,
        *,
        tasks: TaskScope,
        waiting: Waiting,
        leaves: Callable[[ReadEntry], None],
        meter: Meter | None,
    ) -> None:
        self._store = store
        self._rules = rules
        self._tasks = tasks
        self._waiting = waiting
        self._meter = meter
        self._sizes = ReplySizes()
        # Half: the estimate of the other half may be as wrong as it likes.
        self._most_reply_bytes = rules.max_frame_bytes / 2
        self.lane = Lane[ReadEntry](rules, self._most_reply_bytes, cut=self._cut, send=self._start)
        self._settling = Settling[tuple[ReadEntry, Answer]](self._settle)
        self._leaves = leaves
        # Sent batches in order, and the answers of those that have overtaken others: a caller must
        # not hear of a path before one that asked earlier.
        self._sent: deque[list[ReadEntry]] = deque()
        self._early: dict[int, Answers] = {}

    def put(self, entry: ReadEntry) -> None:
        """Read with the next batch; it is the entry's turn on its path."""
        kind = entry.kind = self._sizes.kind(entry.path)
        entry.size_bytes = RESULT_BYTES + kind.likely_bytes
        self.lane.put(entry)

    def _cut(self, queue: deque[ReadEntry]) -> list[ReadEntry]:
        batch: list[ReadEntry] = []
        request_bytes, reply_bytes = 0, 0.0
        most, most_bytes = self._rules.max_operations, self._rules.max_bytes
        while queue and len(batch) < most:
            entry = queue[0]
            if entry.future.done():  # given up while it waited
                self._pass_over(queue.popleft())
                continue
            request_bytes += OVERHEAD_BYTES + len(entry.path)
            reply_bytes += entry.size_bytes
            if batch and (request_bytes > most_bytes or reply_bytes > self._most_reply_bytes):
                break
            batch.append(queue.popleft())
        self._waiting.left(batch)
        return batch

    def _pass_over(self, entry: ReadEntry) -> None:
        self.lane.passed_over(entry)
        self._waiting.left((entry,))
        self._leaves(entry)

    def _start(self, batch: list[ReadEntry]) -> None:
        loop = asyncio.get_running_loop()
        self._sent.append(batch)
        if self._meter is not None:
            self._meter.sent(batch, loop.time())
        self._tasks.start(self._read(batch), "reads")

    async def _read(self, batch: list[ReadEntry]) -> None:
        answers: Answers = StoreError("the read was given up")
        try:
            oldest_s = min(entry.made_s for entry in batch)
            deadline_s = oldest_s + self._rules.operation_timeout_s
            answers = await self._store.read_many(batch, deadline_s)
        except StoreError as error:
            answers = error
        finally:
            self._answered(batch, answers)

    def _answered(self, batch: list[ReadEntry], answers: Answers) -> None:
        self._early[id(batch)] = answers
        while self._sent and (found := self._early.pop(id(self._sent[0]), None)) is not None:
            entries = self._sent.popleft()
            if isinstance(found, StoreError):
                found = [found] * len(entries)
            else:
                self._learn(entries, found)
            self._settling.put(list(zip(entries, found, strict=True)))
        self.lane.answered()

    @staticmethod
    def _learn(batch: list[ReadEntry], answers: Sequence[Answer]) -> None:
        # Of a large batch, one in so many tells as much as all of them.
        step = 1 + len(batch) // _MOST_LESSONS
        for entry, answer in zip(batch[::step], answers[::step], strict=True):
            if isinstance(answer, Versioned):
                entry.kind.saw(len(answer.data))
            elif isinstance(answer, list):
                entry.kind.saw(sum(map(len, answer)) + 4 * len(answer))

    def _settle(self, settled: Sequence[tuple[ReadEntry, Answer]]) -> None:
        for entry, answer in settled:
            if isinstance(answer, StoreError):
                entry.fail(answer)
            elif not entry.future.done():
                entry.future.set_result(answer)
            self._leaves(entry)
        if self._meter is not None:
            self._measure(settled, self._meter)

    @staticmethod
    def _measure(settled: Sequence[tuple[ReadEntry, Answer]], meter: Meter) -> None:
        now_s = asyncio.get_running_loop().time()
        answered: list[ReadEntry] = []
        for entry, answer in settled:
            if entry.aspect is not Aspect.NODE:
                continue  # Pulsar times gets only
            if isinstance(answer, StoreError):
                meter.failed("get", entry, now_s)
            else:
                answered.append(entry)
        meter.answered("get", answered, now_s)
