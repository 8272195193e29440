"""What a fleet costs: requests, bytes and watch events at the servers, and processor time."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from broker_ctl.lab.memory_store.transport import MemoryRequest
from broker_ctl.store.interface import Create, Notification, SetData, Versioned
from tests.deterministic.world.loops import ProcessLoop, Turns

_PATH_OVERHEAD: Final = 24
_MOST_TURNS: Final = 1 << 62
_CHANGES: Final = 500
_LEAST_S: Final = 1e-9


class MeasuredTurns(Turns):
    """`Turns` that keep an account of each loop's processor time, by its name.

    The thread's clock is a call to the kernel, dearer than most turns: it is read once in many
    changes of loop, and divided among them by a clock that is cheap to read.
    """

    def __init__(self) -> None:
        super().__init__(_MOST_TURNS)
        self._cpu_s: defaultdict[str, float] = defaultdict(float)
        self._shares: defaultdict[str, float] = defaultdict(float)
        self._name = ""
        self._changes = 0
        self._since_s = time.perf_counter()
        self._cpu_since_s = time.thread_time()

    def switched(self, loop: ProcessLoop) -> None:
        """The time until now is that of the loop before."""
        now_s = time.perf_counter()
        self._shares[self._name] += now_s - self._since_s
        self._name, self._since_s = loop.name, now_s
        self._changes += 1
        if self._changes == _CHANGES:
            self._divide()

    def spent_s(self) -> dict[str, float]:
        """Processor time by loop, until now."""
        self._divide()
        return dict(self._cpu_s)

    def _divide(self) -> None:
        now_s = time.thread_time()
        ratio = (now_s - self._cpu_since_s) / max(sum(self._shares.values()), _LEAST_S)
        for name, share_s in self._shares.items():
            self._cpu_s[name] += share_s * ratio
        self._shares.clear()
        self._cpu_since_s, self._changes = now_s, 0


@dataclass(slots=True)
class Traffic:
    """On the connections to the servers, since the start.

    Attributes:
        requests: by kind.
        events: watch events that were sent.
        roots: watch events by the first two steps of their path.
        written_bytes, read_bytes: data of nodes in requests, and in their replies; event_bytes:
            of watch events. Headers are not counted, but for a node's path and stat.
    """

    requests: Counter[str] = field(default_factory=Counter)
    roots: Counter[str] = field(default_factory=Counter)
    events: int = 0
    written_bytes: int = 0
    read_bytes: int = 0
    event_bytes: int = 0
    _batch: Sequence[Notification] = ()
    _copies: int = 0

    def note(self, request: MemoryRequest) -> None:
        """A request has arrived: its reply is counted when it is made."""
        self.requests[request.kind] += 1
        for operation in request.operations:
            if isinstance(operation, Create | SetData):
                self.written_bytes += len(operation.data)
            self.written_bytes += len(operation.path)
        if request.operations:
            return
        perform = request.perform

        def counted(session_id: int, tree: Any) -> Any:
            answer = perform(session_id, tree)
            self.read_bytes += _size(answer)
            return answer

        request.perform = counted

    def note_events(self, events: Sequence[Notification]) -> None:
        """They are sent to one client; often the same ones as to the client before."""
        if events is not self._batch:
            self._add_batch()
            self._batch = events
        self._copies += 1

    def _add_batch(self) -> None:
        copies, self._copies = self._copies, 0
        self.events += copies * len(self._batch)
        for event in self._batch:
            self.event_bytes += copies * (len(event.path) + _PATH_OVERHEAD)
            self.roots["/".join(event.path.split("/")[:3])] += copies

    def row(self) -> dict[str, int]:
        """Totals, for differences."""
        self._add_batch()
        return {
            "requests": self.requests.total(),
            "watch_events": self.events,
            "written_bytes": self.written_bytes,
            "read_bytes": self.read_bytes,
            "event_bytes": self.event_bytes,
            **{f"requests_{kind.replace(' ', '_')}": n for kind, n in self.requests.items()},
            **{f"watch_events{root.replace('/', '_')}": n for root, n in self.roots.items()},
        }


def _size(answer: Any) -> int:
    if isinstance(answer, Versioned):
        return len(answer.data) + _PATH_OVERHEAD
    if isinstance(answer, str):
        return len(answer)
    if isinstance(answer, list | tuple):
        return sum(map(_size, answer))
    return _PATH_OVERHEAD


def rates(before: Mapping[str, int], after: Mapping[str, int], s: float) -> dict[str, float]:
    """Of each count, how many a second."""
    return {
        name: round((value - before.get(name, 0)) / s, 3)
        for name, value in sorted(after.items())
        if value != before.get(name, 0)
    }
