"""One topic of each bundle of a namespace without owners, by a process of its own."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from broker_ctl.lab.embedded.ports import LOOPBACK
from tests.benchmarks.lookups import frames, scene
from tests.benchmarks.lookups.binary_line import BinaryLine
from tests.benchmarks.lookups.http_line import LOST, HttpLine
from tests.benchmarks.store.figures import quantile_ms
from tests.benchmarks.store.pacing import now_s
from tests.benchmarks.store.processes import (
    answer,
    measured_apart,
    run_on_uvloop,
    task_of_this_process,
)

_OWNED: Final = "connect"
# As clients do, later: who asks at once would add to what it waits for.
_AGAIN_S: Final = 0.02
_LIMIT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class ColdPass:
    """Task of the process; ``lines`` connections, each with one lookup at a time."""

    port: int
    namespace: str
    bundles: int
    lines: int
    is_binary: bool


class Pass:
    """Every topic is asked for until its owner is answered."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._coming = deque(numbers)
        self._asked: dict[Any, int] = {}
        self._idle: list[Any] = []
        self._began_s: dict[int, float] = {}
        self._left = len(numbers)
        self.all_owned: asyncio.Future[None] = self._loop.create_future()
        self.took_s: list[float] = []
        self.again = 0

    def ask(self, line: Any) -> None:
        """Look the next topic up on a connection that has nothing to do."""
        if not self._coming:
            self._idle.append(line)
            return
        number = self._asked[line] = self._coming.popleft()
        line.ask(number, self._began_s.setdefault(number, now_s()))

    def handle_answer(self, line: Any, kind: str, began_s: float) -> None:
        """Ask again unless it was an owner."""
        number = self._asked.pop(line)
        if kind == LOST and not self.all_owned.done():
            self.all_owned.set_exception(ConnectionResetError("by the server"))
        elif kind == _OWNED:
            self.took_s.append(now_s() - began_s)
            self._left -= 1
            if not self._left:
                self.all_owned.set_result(None)
        else:
            self.again += 1
            self._loop.call_later(_AGAIN_S, self._ask_again, number)
        self.ask(line)

    def _ask_again(self, number: int) -> None:
        self._coming.append(number)
        if self._idle:
            self.ask(self._idle.pop())


async def _work(task: ColdPass) -> Mapping[str, Any]:
    numbers = scene.one_in_each(task.namespace, task.bundles)
    everything = range(max(numbers) + 1)
    if task.is_binary:
        topics = (str(scene.topic(task.namespace, number)) for number in everything)
        requests = [frames.lookup(topic, number + 1) for number, topic in enumerate(topics)]
    else:
        address = f"{LOOPBACK}:{task.port}"
        requests = [scene.request(task.namespace, number, address) for number in everything]
    one = Pass(numbers)
    kind: Any = partial(BinaryLine, "") if task.is_binary else HttpLine
    lines = []
    for _ in range(task.lines):
        _, line = await asyncio.get_running_loop().create_connection(
            lambda: kind(requests, one.handle_answer), LOOPBACK, task.port
        )
        await line.opened()
        lines.append(line)
    async with asyncio.timeout(_LIMIT_S):
        began_s = now_s()
        for line in lines:
            one.ask(line)
        await one.all_owned
    took_s = now_s() - began_s
    for line in lines:
        line.close()
    return {
        "all_owned_s": round(took_s, 3),
        "p50_ms": quantile_ms(one.took_s, 0.5),
        "p99_ms": quantile_ms(one.took_s, 0.99),
        "asked_again": one.again,
    }


async def pass_through(task: ColdPass) -> dict[str, Any]:
    """Look all of them up; seconds until the last has an owner, and quantiles of one."""
    return await measured_apart(__name__, asdict(task))


if __name__ == "__main__":
    answer(run_on_uvloop(_work(ColdPass(**task_of_this_process()))))
