"""What a fleet costs: requests, bytes and watch events at the servers, and processor time."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker_ctl.store.interface import Create, Notification, SetData, Versioned
from broker_ctl.testing.memory_store.transport import Request
from tests.deterministic.world.loops import ProcessLoop, Turns

_PATH_OVERHEAD: Final = 24
_MOST_TURNS: Final = 1 << 62


class MeasuredTurns(Turns):
    """`Turns` that keep an account of each loop's processor time, by its name."""

    def __init__(self) -> None:
        super().__init__(_MOST_TURNS)
        self.cpu_s: defaultdict[str, float] = defaultdict(float)
        self._name = ""
        self._since_s = time.thread_time()

    def switched(self, loop: ProcessLoop) -> None:
        """The time until now is that of the loop before."""
        now_s = time.thread_time()
        self.cpu_s[self._name] += now_s - self._since_s
        self._name, self._since_s = loop.name, now_s


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

    def note(self, request: Request) -> None:
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

    def note_event(self, event: Notification) -> None:
        """A watch event is sent to one client."""
        self.events += 1
        self.event_bytes += len(event.path) + _PATH_OVERHEAD
        self.roots["/".join(event.path.split("/")[:3])] += 1

    def row(self) -> dict[str, int]:
        """Totals, for differences."""
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
