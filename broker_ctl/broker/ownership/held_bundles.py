"""The bundles of this broker, and the scope of the acts on them.

Every act on a bundle runs as a task in the scope of the current session: it does not stop halfway
when its caller is cancelled, and no act of one session continues in the next.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from broker_ctl.coordination.locks import Lock
from broker_ctl.core.history.rows import OwnershipCause
from broker_ctl.core.machines.ownership import BundleState, advance
from broker_ctl.core.model.names import RING_HIGH, Bundle, BundleRange, Namespace, RangeIndex
from broker_ctl.errors import (
    AuthorityLost,
    BundleMoving,
    BundleReclaimable,
    NotOwner,
    OwnershipError,
    SessionError,
)
from broker_ctl.store import paths
from broker_ctl.tasks import TaskScope

T = TypeVar("T")

# The cause of a change that follows from the state; in any other state the caller sets the cause.
_CAUSES: Final = {
    BundleState.SPLITTING: OwnershipCause.SPLIT,
    BundleState.MERGING: OwnershipCause.MERGE,
}


class OwnershipChange(NamedTuple):
    """A bundle begins or ceases to be served under a token."""

    bundle: Bundle
    is_acquired: bool
    cause: OwnershipCause
    token: int


@dataclass(slots=True, eq=False)
class OwnedBundle:
    """One bundle on this broker.

    ``lock`` is None until it is created, and again once it is lost: an act compares it after each
    await. ``replacements`` are the bundles that replace this one if an unanswered split or merge
    was committed. ``cause`` is the cause of the next ownership change; ``served_token`` is the
    token under which the bundle was last reported as served, 0 if never. ``table`` is where it
    was added last.
    """

    bundle: Bundle
    state: BundleState = BundleState.ASSIGNING
    lock: Lock | None = None
    replacements: tuple[Bundle, ...] = ()
    cause: OwnershipCause = OwnershipCause.PLACEMENT
    served_token: int = 0
    table: "OwnedBundles | None" = field(default=None, repr=False)

    def hold(self, lock: Lock) -> Lock:
        """Serve the bundle under this lock from now on.

        Raises:
            NotOwner: it is the lock of another bundle, whose token proves nothing for this one.
        """
        if lock.path != paths.ownership(self.bundle):
            raise NotOwner(f"{self.bundle}: {lock.path} is held in its place")
        self.lock = lock
        return lock

    @property
    def token(self) -> int:
        """The fencing token; 0 without a lock."""
        return self.lock.token if self.lock is not None else 0

    def unavailable_error(self) -> OwnershipError:
        """The retriable error for a lookup of this bundle."""
        if self.state is not BundleState.RECLAIMING:
            return BundleMoving(f"{self.bundle} is {self.state}")
        if self.cause is OwnershipCause.DATA_PLANE:
            return BundleMoving(
                f"{self.bundle} is being released: the broker process that serves it is silent",
            )
        return BundleReclaimable(f"{self.bundle} is being re-acquired by its previous owner")

    def advance(self, to: BundleState) -> None:
        """Enter state ``to``; raises `InvalidTransition` if the table does not allow it."""
        before, self.state = self.state, advance(self.bundle, self.state, to)
        if self.table is not None:
            self.table.version += 1
        # The bundle stays served under the same token: there is no change of ownership.
        if to is BundleState.OWNED and self.token != self.served_token:
            self.served_token = self.token
            self._notify(before, is_acquired=True)
        elif to in {BundleState.FREE, BundleState.DELETED} and self.served_token:
            self._notify(before, is_acquired=False)

    def _notify(self, before: BundleState, *, is_acquired: bool) -> None:
        if self.table is not None and self.table.on_change is not None:
            cause = _CAUSES.get(before, self.cause)
            change = OwnershipChange(self.bundle, is_acquired, cause, self.served_token)
            self.table.on_change(change)


class OwnedBundles:
    """The bundles of this broker in all states, and the acts on them.

    Attributes:
        on_change: called when a bundle begins or ceases to be served.
        version: grows with each change of the bundles and of their states.
    """

    def __init__(self, on_change: Callable[[OwnershipChange], None] | None = None) -> None:
        self.on_change = on_change
        self.version = 0
        self._held: dict[Bundle, OwnedBundle] = {}
        # By namespace: lookups and acquisitions ask for overlapping bundles of one namespace.
        self._in_namespace: dict[Namespace, RangeIndex[OwnedBundle]] = {}
        self._acts: TaskScope | None = None

    @property
    def held(self) -> Mapping[Bundle, OwnedBundle]:
        """A live view of all bundles, by bundle."""
        return MappingProxyType(self._held)

    def require_owned(self, bundle: Bundle) -> OwnedBundle:
        """The bundle, if this broker serves it.

        Raises:
            NotOwner, BundleMoving: the bundle is not held, or an act on it is running.
        """
        held = self._held.get(bundle)
        if held is None:
            raise NotOwner(f"{bundle} is not owned here")
        if held.state is not BundleState.OWNED:
            raise BundleMoving(f"{bundle} is {held.state}")
        return held

    def at(self, namespace: Namespace, position: int) -> OwnedBundle | None:
        """The held bundle that has a position on the ring of a namespace."""
        near = self._in_namespace.get(namespace)
        low = min(position, RING_HIGH - 1)
        span = BundleRange(low, low + 1)
        return None if near is None else next(near.overlapping(span), None)

    def in_state(self, state: BundleState) -> list[OwnedBundle]:
        """The bundles in a state."""
        return [held for held in self._held.values() if held.state is state]

    def overlapping(self, bundle: Bundle) -> Iterator[OwnedBundle]:
        """The held bundles that share hashes with this one."""
        near = self._in_namespace.get(bundle.namespace)
        return iter(()) if near is None else near.overlapping(bundle.range)

    def add(self, held: OwnedBundle) -> None:
        """Add a bundle in any state."""
        bundle = held.bundle
        held.table = self
        self.version += 1
        self._held[bundle] = held
        near = self._in_namespace.get(bundle.namespace)
        if near is None:
            near = self._in_namespace[bundle.namespace] = RangeIndex()
        near.put(bundle.range, held)

    def discard(self, held: OwnedBundle) -> None:
        """Remove a bundle, unless it was added again since."""
        if self._held.get(held.bundle) is held:
            held.advance(BundleState.FREE)
            self._forget(held)

    def replace(self, old: Sequence[OwnedBundle], new: Sequence[OwnedBundle]) -> None:
        """Replace the bundles of a split or merge by its results."""
        for held in old:
            held.advance(BundleState.DELETED)
            self._forget(held)
        for held in new:
            self.add(held)

    def _forget(self, held: OwnedBundle) -> None:
        bundle = held.bundle
        self.version += 1
        del self._held[bundle]
        near = self._in_namespace[bundle.namespace]
        near.remove(bundle.range)
        if not near:
            del self._in_namespace[bundle.namespace]

    @asynccontextmanager
    async def session(self) -> AsyncIterator[None]:
        """The scope of a session: acts run inside it; on leaving it, see `interrupt`."""
        self._acts = TaskScope("acts on bundles")
        try:
            yield
        finally:
            await self.interrupt()

    async def interrupt(self, cause: OwnershipCause = OwnershipCause.EXPIRY) -> None:
        """Cancel all acts; owned bundles stay without a lock until they are re-acquired."""
        acts, self._acts = self._acts, None
        try:
            if acts is not None:
                await acts.close()
        finally:
            for held in list(self._held.values()):
                held.lock, held.cause = None, cause
                if held.state is BundleState.ASSIGNING:
                    self.discard(held)
                elif held.state is not BundleState.RECLAIMING:
                    held.advance(BundleState.RECLAIMING)

    def resume(self) -> None:
        """Admit acts again after `interrupt`."""
        self._acts = TaskScope("acts on bundles")

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start an act.

        Raises:
            AuthorityLost: there is no session.
        """
        if self._acts is None:
            work.close()
            raise AuthorityLost("there is no session")
        return self._acts.start(work, name, is_joined=True)

    async def act(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Start an act and wait for it."""
        return await self.join(self.start(work, name))

    @staticmethod
    async def join(task: asyncio.Task[T]) -> T:
        """Wait for an act without cancelling it when the caller is cancelled.

        Raises:
            AuthorityLost: the session ended during the act.
        """
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise AuthorityLost("the session ended during the act") from None
            raise
        except SessionError as error:
            # The store learns of the session's end before the act is cancelled.
            raise AuthorityLost(f"the session ended during the act: {error}") from error
