"""Requests are answered by one task as long as none of them has to wait.

Most lookups are answered from memory. A task for each of them would cost more than the lookup, so
one worker handles all requests of a loop iteration. If a request makes it wait, the next iteration
starts another worker for the remaining requests. A worker that has waited finishes its current
request and ends.

The loop has more important work, above all the session's heartbeats. So each iteration handles a
bounded number of requests, and the server stops reading from clients that send more: they get their
turns one after the other.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.api.binary.enums import CommandType
from broker_ctl.security.authorization import Client
from broker_ctl.tasks import TaskScope

# Some 25 us each: a turn takes 3 ms.
_ANSWERS_A_TURN: Final = 128
_MAX_QUEUED: Final = 1024
# Each of them takes some `connection.COMMANDS_A_TURN`.
_CLIENTS_A_TURN: Final = 8


@dataclass(slots=True)
class LookupRequest:
    """A client's request, and the callback for its reply, which is called exactly once.

    Attributes:
        data: the bytes that the command was read from.
        client: None: clients need not authenticate.
        origin: address of the client; see `origins`.
    """

    kind: CommandType
    command: Any
    data: bytes
    is_tls: bool
    reply: Callable[[bytes], None]
    client: Client | None = None
    origin: str = ""


class Workers:
    """Answers requests in the order of their arrival; a slow one does not block the others."""

    def __init__(
        self,
        recall: Callable[[LookupRequest], bytes | None],
        answer: Callable[[LookupRequest], Awaitable[bytes]],
        overdue: Callable[[LookupRequest], bytes],
        limit_s: float,
    ) -> None:
        self._recall = recall
        self._answer = answer
        self._overdue = overdue
        self._limit_s = limit_s
        self._tasks = TaskScope("binary lookups")
        self._queue: deque[LookupRequest] = deque()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_relaying = False
        self._shift = 0

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return len(self._queue) + len(self._tasks)

    @property
    def has_room(self) -> bool:
        """Whether requests may be put; a client with more of them waits for its turn."""
        return len(self._queue) < _MAX_QUEUED

    def put(self, request: LookupRequest) -> None:
        """Have a request answered."""
        self._queue.append(request)
        if not self._is_relaying:
            self._start()
            self._relay_soon()

    def wait_turn(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` in a later turn, when there is room and others have had theirs."""
        self._waiting.append(go_on)
        if not self._is_relaying:
            self._relay_soon()

    async def close(self) -> None:
        """Cancel what is in progress; it stays without an answer."""
        self._queue.clear()
        self._waiting.clear()
        await self._tasks.close()

    def _relay_soon(self) -> None:
        self._is_relaying = True
        asyncio.get_running_loop().call_soon(self._relay)

    def _relay(self) -> None:
        """Run once per iteration, after the worker.

        Start another worker for requests that it left.
        """
        for _ in range(min(_CLIENTS_A_TURN, len(self._waiting))):
            if self.has_room:
                self._waiting.popleft()()
        if self._queue:
            self._start()
        else:
            self._shift += 1
        self._is_relaying = False
        if self._queue or self._waiting:
            self._relay_soon()

    def _start(self) -> None:
        self._shift += 1
        self._tasks.start(self._work(self._shift), "worker")

    async def _work(self, shift: int) -> None:
        # Only the newest worker takes from the queue, and it was not empty when this one began.
        # One limit does for all that it takes: those before the one that waits took no time.
        request = self._queue[0]
        try:
            async with asyncio.timeout(self._limit_s):
                for _ in range(_ANSWERS_A_TURN):
                    if shift != self._shift or not self._queue:
                        break
                    request = self._queue.popleft()
                    frame = self._recall(request)
                    request.reply(await self._answer(request) if frame is None else frame)
        except TimeoutError:
            request.reply(self._overdue(request))
