"""What a client holds, and until when: each hold has a token, and ends by the session's lease.

A lease is what committed heartbeats prove: until then the servers keep the session, and give what
it holds to nobody else (docs: zookeeper-session-rules). It ends before the session does, so a
holder that is cut off stops before its successor begins. A hold that is lost stays lost, even if
its session comes back: its node is removed, and whoever wants it again stands in line again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.errors import AuthorityLost, StoreError
from broker_ctl.store.interface import Change, MetadataStore, Notification
from broker_ctl.tasks import TaskScope

_T = TypeVar("_T")

# Gives up the node of a hold; returns once it is gone, or its session is.
Leave = Callable[[], Coroutine[Any, Any, None]]


class Held:
    """Something that this client holds; ``async with`` releases it at the end of the block.

    Attributes:
        path: its node.
        token: larger than that of every former holder: whoever is written to refuses smaller
            ones, and so the late writes of a holder that has lost it (fencing).
        lost: set once it is not held any more, for whatever reason but `release`.
        stop_watching: ends the watch of its node, where it has one of its own.
    """

    def __init__(
        self,
        holds: "Holds",
        path: str,
        token: int,
        epoch: int,
        leave: Leave,
    ) -> None:
        self.path: Final = path
        self.token: Final = token
        self.lost: Final = asyncio.Event()
        self.stop_watching: Callable[[], None] | None = None
        self._holds = holds
        self._epoch = epoch
        self._leave = leave
        self._why = ""
        self._releasing: asyncio.Task[None] | None = None

    @property
    def epoch(self) -> int:
        """The session that holds it: the n-th of the client."""
        return self._epoch

    @property
    def is_held(self) -> bool:
        """Whether an act that needs it may begin now."""
        return self.remaining_s > 0

    @property
    def valid_until(self) -> float:
        """Until when it is proven to be held, in seconds of the client's clock; 0: not at all."""
        return 0.0 if self._why else self._holds.deadline_s(self._epoch)

    @property
    def remaining_s(self) -> float:
        """Seconds until `valid_until`; 0 or less: it is not proven to be held."""
        return self.valid_until - self._holds.now_s()

    def check(self) -> None:
        """Check before an act that needs it.

        Raises:
            AuthorityLost: it is not held any more, or not proven to be.
        """
        if self._why:
            raise AuthorityLost(f"{self.path} is not held any more: {self._why}")
        if not self.is_held:
            raise AuthorityLost(f"{self.path} is not proven to be held: no heartbeat in time")

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run ``work``, and cancel it when this is lost.

        Raises:
            AuthorityLost: it was lost before the work had ended.
        """
        loop = asyncio.get_running_loop()
        working = loop.create_task(work, name=f"while {self.path} is held")
        losing = loop.create_task(self.lost.wait(), name=f"until {self.path} is lost")
        try:
            await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
        finally:
            working.cancel()
            losing.cancel()
            await asyncio.wait({working, losing})
        if not working.cancelled() and (error := working.exception()) is not None:
            raise error
        raise AuthorityLost(f"{self.path} was lost: {self._why}")

    async def release(self) -> None:
        """Give it up: the next in line has it. Once is enough, and more do no harm.

        Returns when its node is gone, also where it takes several connections. A caller that is
        cancelled leaves the rest to the client.
        """
        if not self._why:
            self._end("it was released")
        if self._releasing is None:
            self._releasing = self._holds.start(self._leave(), "release")
        if self._releasing is not None:
            await asyncio.shield(self._releasing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()

    # Called by `Holds`.

    def lose(self, why: str) -> None:
        """It is not held any more, by no act of its holder."""
        if self._why:
            return
        self._end(why)
        self.lost.set()
        # The session may live on, and others wait for this node to go.
        self._releasing = self._holds.start(self._leave(), "leave the line")

    def on_change(self, change: Notification) -> None:
        """Its node has changed."""
        if change.path == self.path and change.change is Change.DELETED:
            self.lose("its node was deleted")

    def _end(self, why: str) -> None:
        self._why = why
        self._holds.forget(self)


class Holds:
    """All that one client holds; told of what happens to its session."""

    def __init__(
        self, store: MetadataStore, session: SessionWatcher, clock: Clock, tasks: TaskScope
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._tasks = tasks
        self._held: dict[Held, None] = {}
        self._changed = asyncio.Event()
        session.listen(self._on_action)
        session.listen_grants(lambda _: self._wake())

    def __len__(self) -> int:
        return len(self._held)

    # For holds.

    def now_s(self) -> float:
        """The present on the clock of leases."""
        return self._clock.now_s()

    def deadline_s(self, epoch: int) -> float:
        """Until when the session of this number is proven to live; 0: it is not."""
        return self._session.deadline_s if epoch == self._session.epoch else 0.0

    def start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None] | None":
        """Start work that outlives its caller; None: the client is closing, and its session too."""
        try:
            return self._tasks.start(work, name, is_joined=True)
        except RuntimeError:
            return None

    def forget(self, held: Held) -> None:
        """It is not held any more."""
        self._held.pop(held, None)

    # For recipes.

    def add(self, path: str, token: int, epoch: int, leave: Leave) -> Held:
        """Hold something whose node this session has.

        Raises:
            AuthorityLost: the session is not proven to live.
        """
        self._session.check_epoch(epoch)
        held = Held(self, path, token, epoch, leave)
        self._held[held] = None
        return held

    async def wait_epoch(self, check_open: Callable[[], None]) -> int:
        """The number of the current session, once it is proven to live."""
        while True:
            check_open()
            if self._clock.now_s() < self._session.deadline_s:
                return self._session.epoch
            await self._changed.wait()

    def is_current(self, epoch: int) -> bool:
        """Whether the nodes of this session may still be there."""
        return epoch == self._session.epoch

    # What happens to the session.

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _on_action(self, action: SessionAction) -> None:
        if action is SessionAction.FENCE:
            for held in tuple(self._held):
                held.lose("the lease of the session is over")
        elif action is SessionAction.VERIFY and self._held:
            self.start(self._verify(), "look for what is held")

    async def _verify(self) -> None:
        """After a reconnect: an operator may have deleted a node while nobody told us."""
        for held in tuple(self._held):
            with contextlib.suppress(StoreError):
                if await self._store.exists(held.path) is None:
                    held.lose("its node was deleted")
