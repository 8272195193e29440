"""What lies between one daemon and the rest of the world, and what goes wrong on it."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from broker_ctl.lab.memory_store.transport import Fault, FaultPoint, MemoryRequest, RequestKind
from broker_ctl.store.interface import Check, Create, SetData

# Whose cut points are counted.
COVERED = (
    RequestKind.CREATE,
    RequestKind.CREATE_EPHEMERAL,
    RequestKind.CREATE_SEQUENTIAL,
    RequestKind.SET,
    RequestKind.DELETE,
    RequestKind.MULTI,
    RequestKind.ADD_WATCH,
    RequestKind.CLOSE_SESSION,
)
# What happens to a configuration store of its own.
CONFIGURATION = ("cut", "expiry", "restart")
# Steps that many schedules have to take.
STEPS = (
    "away",
    "create namespace",
    "delete namespace",
    "groups",
    "hold acknowledgements",
    "hold touches",
    "limit timeouts",
    "lost node",
    "merge",
    "restore",
    "second expiry",
    "second life",
    "server version",
    "stall",
    "suspend",
    "unload after split",
)
_LONGEST_S = 0.002
_LOOK_S = 0.02


class Coverage:
    """How often each request was cut at each point, and the configuration store was away."""

    def __init__(self) -> None:
        self.cuts: Counter[tuple[RequestKind, FaultPoint]] = Counter()
        self.configuration: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()

    def to_row(self) -> dict[str, int]:
        cuts = {
            f"{kind} {point}": self.cuts[kind, point] for kind in COVERED for point in FaultPoint
        }
        configuration = {
            f"configuration {kind}": self.configuration[kind] for kind in CONFIGURATION
        }
        return cuts | configuration | {step: self.steps[step] for step in STEPS}


class Wire:
    """The network of one store.

    Attributes:
        slow_s: how long each message takes besides.
        is_stalled: messages and pings wait where they are.
        apart: daemons that messages do not reach, and whose messages do not arrive.
        requests: every write that was executed, for the judges of what was answered.
    """

    def __init__(self, rng: random.Random, coverage: Coverage) -> None:
        self._rng = rng
        self._coverage = coverage
        self._cut: tuple[RequestKind, FaultPoint] | None = None
        self._is_next_too_large = False
        self._ambushes: dict[str, Callable[[], None]] = {}
        self._traps: dict[tuple[str, FaultPoint], tuple[Callable[[], None], Fault | None]] = {}
        self.slow_s = 0.0
        self.is_stalled = False
        self.apart: set[str] = set()
        self._stalled_s = 0.0
        self.requests: dict[MemoryRequest, None] = {}

    async def transit(self) -> None:
        await asyncio.sleep(self._rng.random() * _LONGEST_S + self.slow_s)
        # Loops of daemons and of servers wait here: an event belongs to one of them.
        while self.is_stalled:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    async def transit_to(self, broker_id: str) -> None:
        """The way to or from another daemon: what is held up arrives when all is well again."""
        await self.transit()
        while broker_id in self.apart:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    def stall(self, now_s: float) -> None:
        """Nothing gets through, and neither end hears of it, until `calm` or `flow`."""
        self.is_stalled, self._stalled_s = True, now_s

    def flow(self) -> None:
        """What has waited arrives."""
        self.is_stalled = False

    def pulse_s(self, sent_s: float) -> float:
        """Until when pings that were sent until ``sent_s`` have arrived."""
        if self.is_stalled:
            return min(sent_s, self._stalled_s)
        return sent_s - self.slow_s

    def cut_at(self, kind: RequestKind, point: FaultPoint) -> None:
        """The next request of the kind meets the end of its connection there."""
        self._cut = (kind, point)

    def ambush(self, root: str, act: Callable[[], None]) -> None:
        """Do something right before the next node below ``root`` is created or changed."""
        self._ambushes[root] = act

    def trap(
        self, path: str, point: FaultPoint, act: Callable[[], None], mishap: Fault | None = None
    ) -> None:
        """Do something when the next request that writes ``path`` comes there, once."""
        self._traps[path, point] = act, mishap

    def make_too_large(self) -> None:
        """The next reply to several reads is."""
        self._is_next_too_large = True

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self._cut, self._is_next_too_large, self.slow_s = None, False, 0.0
        self.flow()
        self.apart.clear()
        self._ambushes.clear()
        self._traps.clear()

    def mishap(self, request: MemoryRequest, point: FaultPoint) -> Fault | None:
        """See `broker_ctl.lab.memory_store.transport.Faults`."""
        if point is FaultPoint.BEFORE:
            self._spring(request)
        elif request.operations:
            self.requests[request] = None
        if self._traps and (found := self._trapped(request, point)):
            act, mishap = found
            act()
            return mishap
        if self._cut == (request.kind, point):
            self._cut = None
            self._coverage.cuts[request.kind, point] += 1
            return Fault.CUT
        if (
            request.kind is RequestKind.READ_MANY
            and point is FaultPoint.AFTER
            and self._is_next_too_large
        ):
            self._is_next_too_large = False
            return Fault.TOO_LARGE
        return None

    def _trapped(
        self, request: MemoryRequest, point: FaultPoint
    ) -> tuple[Callable[[], None], Fault | None] | None:
        for operation in request.operations:
            is_write = not isinstance(operation, Check)
            if is_write and (operation.path, point) in self._traps:
                return self._traps.pop((operation.path, point))
        return None

    def _spring(self, request: MemoryRequest) -> None:
        if not self._ambushes:
            return
        for root in list(self._ambushes):
            if any(
                isinstance(operation, Create | SetData) and operation.path.startswith(f"{root}/")
                for operation in request.operations
            ):
                self._ambushes.pop(root)()
