"""Lookups at one server, by a process of its own: as fast as they are answered, or at a rate."""

import asyncio
import gc
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile
from random import Random
from typing import Any, Final, Protocol

from broker_ctl.lab.embedded.ports import LOOPBACK
from tests.benchmarks.lookups import frames, scene
from tests.benchmarks.lookups.binary_line import BinaryLine
from tests.benchmarks.lookups.cores import cpu_s
from tests.benchmarks.lookups.http_line import LOST, HttpLine
from tests.benchmarks.store.figures import quantile_ms
from tests.benchmarks.store.pacing import arrivals, now_s, pace
from tests.benchmarks.store.processes import (
    answer,
    measured_apart,
    run_on_uvloop,
    task_of_this_process,
)

_SEED: Final = 2
# The unit in which the kernel counts CPU time.
_TICK_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Asking:
    """Task of the process.

    Attributes:
        pid: of the server, whose CPU time is measured.
        lines: connections.
        depth: lookups on their way on each; HTTP has one.
        rate: lookups a second, sent on time even where earlier ones are unanswered; 0: each
            connection sends the next one as soon as an earlier one is answered.
        token: of the client; empty: none.
    """

    port: int
    pid: int
    namespace: str
    topics: int
    lines: int
    depth: int
    warm_s: float
    measured_s: float
    rate: float = 0
    is_binary: bool = False
    token: str = ""


class Line(Protocol):
    """A connection."""

    async def opened(self) -> None:
        """Wait until it may be asked on."""
        ...

    def ask(self, number: int, due_s: float) -> None:
        """Look up the topic of that number."""
        ...

    def close(self) -> None:
        """Done."""
        ...


class Askers:
    """All connections.

    Attributes:
        answers: by kind, from the first on.
        took_s: of the course that runs, or ran last.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._idle: deque[Line] = deque()
        self._slots = 0
        self._waiting: deque[float] = deque()
        self._next_until_s = 0.0
        self._is_over = True
        self._all_answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers: Counter[str] = Counter()
        self.took_s: list[float] = []

    def add(self, line: Line, depth: int) -> None:
        """Ask on this one, too."""
        self._idle.extend([line] * depth)
        self._slots += depth

    async def one_after_another(self, length_s: float) -> float:
        """As many at a time as there are slots; seconds until the last was answered."""
        began_s = self._begin()
        self._next_until_s, self._is_over = began_s + length_s, True
        for _ in range(self._slots):
            self._ask(now_s())
        await self._all_answered
        return now_s() - began_s

    async def at_rate(self, rate: float, length_s: float, rng: Random) -> float:
        """An open loop; seconds until the last was answered."""
        began_s = self._begin()
        end_s = began_s + length_s
        await pace(takewhile(lambda due_s: due_s < end_s, arrivals(rate, rng)), self._due)
        self._is_over = True
        self._end_if_answered()
        await self._all_answered
        return now_s() - began_s

    def handle_answer(self, line: Line, kind: str, due_s: float) -> None:
        """An answer has come, or will not come any more."""
        if kind == LOST:
            if not self._all_answered.done():
                self._all_answered.set_exception(ConnectionResetError("by the server"))
            return
        now = now_s()
        self.answers[kind] += 1
        self.took_s.append(now - due_s)
        self._idle.append(line)
        if now < self._next_until_s:
            self._ask(now)
        elif self._waiting:
            self._ask(self._waiting.popleft())
        else:
            self._end_if_answered()

    def _begin(self) -> float:
        self._next_until_s, self._is_over = 0.0, False
        self.took_s = []
        self._all_answered = asyncio.get_running_loop().create_future()
        return now_s()

    def _end_if_answered(self) -> None:
        is_answered = len(self._idle) == self._slots
        if self._is_over and is_answered and not self._all_answered.done():
            self._all_answered.set_result(None)

    def _due(self, due_s: float) -> None:
        if self._idle:
            self._ask(due_s)
        else:
            self._waiting.append(due_s)

    def _ask(self, due_s: float) -> None:
        self._idle.popleft().ask(next(self._numbers), due_s)


def _requests(task: Asking) -> Sequence[bytes]:
    numbers = range(task.topics)
    if task.is_binary:
        return [frames.lookup(str(scene.topic(task.namespace, n)), n + 1) for n in numbers]
    address = f"{LOOPBACK}:{task.port}"
    return [scene.request(task.namespace, n, address, token=task.token) for n in numbers]


@asynccontextmanager
async def _opened(task: Asking) -> AsyncIterator[Askers]:
    askers, requests = Askers(scene.order(task.topics)), _requests(task)
    kind: Callable[..., Any] = partial(BinaryLine, task.token) if task.is_binary else HttpLine
    lines: list[Line] = []
    try:
        for _ in range(task.lines):
            _, line = await asyncio.get_running_loop().create_connection(
                lambda: kind(requests, askers.handle_answer), LOOPBACK, task.port
            )
            lines.append(line)
            await line.opened()
            askers.add(line, task.depth)
        yield askers
    finally:
        for line in lines:
            line.close()


async def _measure(task: Asking) -> dict[str, Any]:
    gc.disable()
    async with _opened(task) as askers:
        await askers.one_after_another(task.warm_s)
        used = cpu_s(task.pid), cpu_s(os.getpid())
        if task.rate:
            took_s = await askers.at_rate(task.rate, task.measured_s, Random(_SEED))
        else:
            took_s = await askers.one_after_another(task.measured_s)
        server_s, own_s = cpu_s(task.pid) - used[0], cpu_s(os.getpid()) - used[1]
        return {
            "answers": dict(askers.answers),
            "measured": len(askers.took_s),
            "rate": round(len(askers.took_s) / took_s, 1),
            "p50_ms": quantile_ms(askers.took_s, 0.5),
            "p99_ms": quantile_ms(askers.took_s, 0.99),
            "max_ms": quantile_ms(askers.took_s, 1.0),
            # Holds on a machine that does other work too.
            "per_cpu_s": round(len(askers.took_s) / max(server_s, _TICK_S), 1),
            "server_cpu_ratio": round(server_s / took_s, 3),
            "own_cpu_ratio": round(own_s / took_s, 3),
        }


async def ask(task: Asking) -> dict[str, Any]:
    """Ask by a process of its own; all answers by kind, and the figures without the warm-up.

    Raises:
        AssertionError: some answers were neither an owner nor a redirect.
    """
    found = await measured_apart(__name__, asdict(task))
    assert set(found["answers"]) <= {"connect", "redirect"}, found
    return found


if __name__ == "__main__":
    answer(run_on_uvloop(_measure(Asking(**task_of_this_process()))))
