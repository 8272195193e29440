"""Leader election, for the balancer and the controller (docs: session-scope)."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.election_node import ElectionNode, ElectionRecords, LeaderRecords
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.machines.election import (
    STABLE_S,
    ElectionAction,
    ElectionEvent,
    ElectionState,
    pause_s,
    step,
)
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.errors import AuthorityLost, Fenced, LeadershipSuspended, MultiFailed, StoreError
from broker_ctl.retry import is_any, retry
from broker_ctl.store.interface import Check, MetadataStore, Operation, Result
from broker_ctl.store.paths import ElectionPaths
from broker_ctl.store.records.ownership import LeaderBroker
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# One leadership, as the leader sees it: whether it may decide now.
#
# A leader whose connection is gone decides nothing: another one may have been elected meanwhile.
# It is not deposed either: when the connection is back and the election node is still its own, it
# leads on under the same epoch. So what it was about to do waits (docs: pulsar-leader-election).


class _Phase(Enum):
    DECIDING = auto()
    SUSPENDED = auto()
    ENDED = auto()


class Leadership:
    """One leadership; the election suspends, resumes and ends it.

    Args:
        election_name: what is led.
        epoch: of this leadership; no other has the same.
        check_authority: raises `AuthorityLost` where the lease has run out.
    """

    def __init__(
        self, election_name: ElectionPaths, epoch: int, check_authority: Callable[[], None]
    ) -> None:
        self.election_name = election_name
        self.epoch = epoch
        self._check_authority = check_authority
        self._phase = _Phase.DECIDING
        self._changed = asyncio.Event()

    @property
    def guard(self) -> Operation:
        """The first operation of this leader's transactions: fails once another was elected."""
        return Check(self.election_name.epoch_path, self.epoch)

    async def write(self, store: MetadataStore, *operations: Operation) -> Sequence[Result]:
        """Write all operations or none, under the epoch.

        Raises:
            Fenced: another leader was elected.
            MultiFailed: an operation was refused; its index counts the guard as 0.
            StoreError: nothing was written, or the nodes have to show it.
        """
        try:
            return (await store.multi([self.guard, *operations]))[1:]
        except MultiFailed as error:
            if error.index == 0:
                raise Fenced(f"another leader was elected: {error}") from error
            raise

    def check(self) -> None:
        """Check authority before a decision that cannot wait.

        Raises:
            LeadershipSuspended: the connection is gone; this leadership may go on or not.
            AuthorityLost: it has ended, or the lease has run out.
        """
        self._check_lasting()
        if self._phase is _Phase.SUSPENDED:
            raise LeadershipSuspended(
                f"{self.election_name.name}: no connection at epoch {self.epoch}"
            )

    async def wait_deciding(self) -> None:
        """Return once a decision, command or write may be made.

        Raises:
            AuthorityLost: this leadership has ended, or the lease has run out.
        """
        while True:
            self._check_lasting()
            if self._phase is _Phase.DECIDING:
                return
            await self._changed.wait()

    def _check_lasting(self) -> None:
        if self._phase is _Phase.ENDED:
            raise AuthorityLost(
                f"{self.election_name.name} is not led from here at epoch {self.epoch}"
            )
        self._check_authority()

    # Called by the election.

    def suspend(self) -> None:
        """The connection was lost."""
        self._enter(_Phase.SUSPENDED)

    def resume(self) -> None:
        """The election node was read on a new connection, and is still ours."""
        self._enter(_Phase.DECIDING)

    def end(self) -> None:
        """The term has ended for good."""
        self._enter(_Phase.ENDED)

    def _enter(self, phase: _Phase) -> None:
        if self._phase is not _Phase.ENDED:
            self._phase = phase
            self._changed.set()
            self._changed = asyncio.Event()


# When a candidate may stand again after a term: others go first if it ended early.


class GivingWay:
    """The pauses of one candidate, over all its terms (docs: pulsar-leader-election; anti-flap)."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._setbacks = 0
        self._led_since_s = 0.0
        self._due_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the candidate may stand; 0 or less: it may."""
        return self._due_s - self._clock.now_s()

    def on_elected(self) -> None:
        """A term begins."""
        self._led_since_s = self._clock.now_s()

    def on_stepped_down(self) -> None:
        """A term ends."""
        is_stable = self._clock.now_s() - self._led_since_s > STABLE_S
        self._setbacks = 0 if is_stable else self._setbacks + 1
        self._pause()

    def on_node_deleted(self) -> None:
        """Only now others can be elected: the node may have outlived the term."""
        self._pause()

    def _pause(self) -> None:
        self._due_s = self._clock.now_s() + pause_s(self._setbacks, self._rng.uniform(0, 1))


# The newest epoch of an election that the store has confirmed (docs: i3-epochs).
#
# Commands name the epoch of their sender. Only the store knows which epochs there have been: a
# broker that believed a made-up one would refuse its real leader until a restart.


# A sender may make up any number of epochs.
_MAX_LOGGED: Final = 10


class ConfirmedEpoch:
    """What one broker knows of the epochs of one election; survives its sessions.

    Attributes:
        newest: the newest epoch that the store has confirmed; 0: none yet.
    """

    def __init__(self, store: MetadataStore, election_name: ElectionPaths) -> None:
        self._store = store
        self._path = election_name.epoch_path
        self._logged = 0
        # Of the node that was read. One that was deleted and made again begins at 0.
        self._czxid = 0
        self.newest = 0

    def check(self, epoch: int) -> Operation:
        """For a transaction: the epoch is the newest as the transaction is executed."""
        return Check(self._path, epoch)

    async def read(self) -> None:
        """Read the newest epoch: it is the data version of its node.

        Raises:
            StoreError: the store did not answer.
        """
        stat = await self._store.exists(self._path)
        if stat is None:
            return
        if stat.czxid > self._czxid:
            if stat.version < self.newest:
                log.warning(
                    "%s was deleted and made again: its epochs begin again, and are at %d; %d was "
                    "seen at the former node",
                    self._path,
                    stat.version,
                    self.newest,
                )
            self._czxid, self.newest = stat.czxid, stat.version
        elif stat.czxid == self._czxid:
            self.newest = max(self.newest, stat.version)

    async def confirm(self, epoch: int) -> None:
        """Make sure that there was an election at this epoch or a later one.

        Another epoch than the newest is compared with the node: an older one may be the first of a
        node that was made again.

        Raises:
            Fenced: there was none.
            StoreError: the store did not answer.
        """
        if epoch == self.newest:
            return
        await self.read()
        if epoch != self.newest:
            # The server of this broker may be behind the election.
            await self._store.sync(self._path)
            await self.read()
        if epoch <= self.newest:
            return
        if self._logged < _MAX_LOGGED:
            self._logged += 1
            log.warning(
                "refusing a command at epoch %d: the newest at %s is %d, so no elected broker sent "
                "it; look for the sender, which has a token of this cluster if one is needed",
                epoch,
                self._path,
                self.newest,
            )
        raise Fenced(f"epoch {epoch} is unknown: the newest at {self._path} is {self.newest}")

    def require_newest(self, epoch: int, subject: str) -> None:
        """Refuse the epoch of a deposed leader; ``subject`` begins the reason.

        Raises:
            Fenced: a newer epoch is known.
        """
        if epoch < self.newest:
            raise Fenced(f"{subject} {epoch} is stale: {self.newest} was seen")


# Leader election, for the balancer and the controller (docs: session-scope, stopping).
#
# `core/machines/election.py` decides, this module acts, `election_node.py` is the node in the
# store. A term is a scope: its work is cancelled when it ends.


# Between two looks whether there is authority again.
_POLL_S: Final = 0.25
_LOOK_AGAIN_S: Final = 5.0


class Election:
    """This broker's candidacy in one election, over all its sessions.

    Args:
        records: payloads of the nodes; default: Pulsar's.
    """

    def __init__(
        self,
        store: MetadataStore,
        watcher: SessionWatcher,
        deletions: Deletions,
        *,
        clock: Clock,
        election_name: ElectionPaths,
        leader: LeaderBroker,
        rng: random.Random,
        records: ElectionRecords | None = None,
    ) -> None:
        self._node = ElectionNode(
            store, deletions, election_name, records or LeaderRecords(leader), rng=rng
        )
        self._watcher = watcher
        self._clock = clock
        self._election_name = election_name
        self._own = leader
        self._rng = rng
        self._state = ElectionState.ELECTING
        self._leadership: Leadership | None = None
        self._leader: LeaderBroker | None = None
        self.version = 0
        self._czxid = 0
        self._cuts = 0
        self._work: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self._resigning = asyncio.Event()
        self._giving_way = GivingWay(clock, rng)

    # State.

    @property
    def state(self) -> ElectionState:
        """State of this candidate."""
        return self._state

    @property
    def is_resigned(self) -> bool:
        """Whether this broker has withdrawn from the election for good."""
        return self._state is ElectionState.RESIGNED

    @property
    def leadership(self) -> Leadership | None:
        """The current term of this broker; None while it follows or is suspended."""
        return self._leadership if self._state is ElectionState.LEADING else None

    @property
    def leader(self) -> LeaderBroker | None:
        """The leader by the last read; None while unknown."""
        return self._leader

    def _follow(self, leader: LeaderBroker | None) -> None:
        """Know the leader, or that there is none."""
        self.version += leader != self._leader
        self._leader = leader

    def on_session_action(self, action: SessionAction) -> None:
        """Listener of the session watcher; without authority the leader steps down at once."""
        if action is SessionAction.CONNECTION_LOST:
            self._cuts += 1
            self._on_event(ElectionEvent.CONNECTION_LOST)
        elif action is SessionAction.FENCE:
            self._on_event(ElectionEvent.AUTHORITY_LOST)
        self._wake.set()

    def _on_event(self, event: ElectionEvent) -> None:
        """Handle an event whose actions do not wait; after resigning events are ignored."""
        if self._state is not ElectionState.RESIGNED and ElectionAction.STEP_DOWN in self._enter(
            event
        ):
            self._step_down()

    def _enter(self, event: ElectionEvent) -> tuple[ElectionAction, ...]:
        """Enter the next state and suspend or resume the term; returns the actions to run."""
        before = self._state
        self._state, actions = step(before, event)
        if self._state is not before:
            log.info(
                "election at %s: %s -> %s (%s)",
                self._election_name.node_path,
                before,
                self._state,
                event,
            )
        if self._leadership is not None and self._state is ElectionState.SUSPENDED:
            self._leadership.suspend()
        elif self._leadership is not None and self._state is ElectionState.LEADING:
            self._leadership.resume()
        return actions

    # Running.

    async def run(self, lead: Callable[[Leadership], Awaitable[None]]) -> None:
        """Take part until cancelled or resigned; run ``lead`` while leading."""
        self._ended.clear()
        self._state = ElectionState.ELECTING
        self._follow(None)
        try:
            stop_watching = await self._node.watch(self._wake.set)
            try:
                async with TaskScope(f"leading {self._election_name.name}") as scope:
                    await self._keep_looking(scope, lead)
            finally:
                stop_watching()
        finally:
            self._leave()

    def _leave(self) -> None:
        """Queue our node for deletion: no other broker can lead while it exists."""
        self._step_down()
        self._follow(None)
        if not self.is_resigned:
            self._state = ElectionState.ELECTING
        self._node.queue_deletion()
        self._ended.set()

    async def resign(self) -> None:
        """Give leadership up and withdraw for good; the caller sets the deadline."""
        self._resigning.set()
        self._wake.set()
        await self._ended.wait()

    async def _keep_looking(
        self,
        scope: TaskScope,
        lead: Callable[[Leadership], Awaitable[None]],
    ) -> None:
        async def look() -> None:
            self._wake.clear()
            if not self.is_resigned and (event := await self._next_event()) is not None:
                await self._apply(event, scope, lead)

        what = f"cannot go on with the election at {self._election_name.node_path}"
        while not self.is_resigned:
            # The watcher ends this with the session, whichever error the end may give here.
            await retry(look, what, rng=self._rng, judge=is_any(StoreError))
            if not self.is_resigned:
                # A notification may be lost with the connection, so the node is also read at an
                # interval.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await self._wake.wait()

    async def _next_event(self) -> ElectionEvent | None:
        """Read the node; None if the session changed meanwhile."""
        before, cuts = self._state, self._cuts
        if self._resigning.is_set():
            return ElectionEvent.RESIGN
        is_leader = before in {ElectionState.LEADING, ElectionState.SUSPENDED}
        if is_leader and self._work is not None and self._work.done():
            return ElectionEvent.FAILED
        # A suspended leader reads after a sync: the node may have changed while it was
        # disconnected.
        node = await self._node.read(is_synced=before is ElectionState.SUSPENDED)
        if self._state is not before or self._cuts != cuts:
            # An answer from before the disconnection must not resume a suspended leader.
            self._wake.set()
            return None
        if node is None:
            self._follow(None)
            return ElectionEvent.FREE
        self._follow(self._node.leader_of(node))
        is_mine = self._node.is_ours(node)
        return (
            ElectionEvent.MINE
            if is_mine and self._czxid in {0, node.stat.czxid}
            else ElectionEvent.OTHERS
        )

    async def _apply(
        self,
        event: ElectionEvent,
        scope: TaskScope,
        lead: Callable[[Leadership], Awaitable[None]],
    ) -> None:
        """Run the actions. While one of them waits, only `session_changed` changes the state.

        The actions that wait are STAND and DELETE. They run in ELECTING or RESIGNED, states that no
        session event leaves.
        """
        for action in self._enter(event):
            match action:
                case ElectionAction.CREATE:
                    outcome = ElectionEvent.WON if await self._claim() else ElectionEvent.BEATEN
                    await self._apply(outcome, scope, lead)
                case ElectionAction.LEAD:
                    assert self._leadership is not None
                    name = f"epoch {self._leadership.epoch}"
                    self._work = scope.start(self._lead(self._leadership, lead), name)
                case ElectionAction.STEP_DOWN:
                    self._step_down()
                case ElectionAction.DELETE:
                    await self._wait_work()
                    await self._node.delete()
                    self._giving_way.on_node_deleted()
                    self._wake.set()

    async def _lead(
        self,
        leadership: Leadership,
        lead: Callable[[Leadership], Awaitable[None]],
    ) -> None:
        log.info("elected at %s, epoch %d", self._election_name.node_path, leadership.epoch)
        try:
            await lead(leadership)
        finally:
            log.info(
                "no longer leader at %s, epoch %d", self._election_name.node_path, leadership.epoch
            )
            self._wake.set()

    def _step_down(self) -> None:
        if self._leadership is None:
            return
        self._giving_way.on_stepped_down()
        self._leadership.end()
        self._leadership, self._czxid = None, 0
        if self._work is not None:
            self._work.cancel()
        self._wake.set()

    # The node.

    async def _claim(self) -> bool:
        """Create the node under a new epoch; returns whether this broker was elected."""
        is_due = await self._wait_turn()
        # The node is read again after any outcome.
        self._wake.set()
        if not is_due:
            return False
        cuts = self._cuts
        claimed = await self._node.claim()
        # The lease may have run out, or the connection been lost, meanwhile: then the node is
        # deleted.
        if claimed is None or not self._has_authority or self._cuts != cuts:
            return False
        self._follow(self._own)
        self._czxid = claimed.czxid
        self._giving_way.on_elected()
        self._leadership = Leadership(self._election_name, claimed.epoch, self._watcher.check)
        return True

    @property
    def _has_authority(self) -> bool:
        return self._clock.now_s() < self._watcher.deadline_s

    async def _wait_turn(self) -> bool:
        """Wait until others have had their turn; false if it must not claim now."""
        # The queued deletion of an earlier node must not hit the new one.
        await self._node.wait_deleted_node()
        left_s = self._giving_way.left_s
        if not self._has_authority:
            # Without authority the node would only block other candidates.
            left_s = max(left_s, _POLL_S)
        if left_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._wake.wait()
                return False  # another one may lead
        await self._wait_work()
        return self._has_authority and not self._resigning.is_set()

    async def _wait_work(self) -> None:
        """Wait for the end of the previous term's work: two terms must never overlap."""
        if self._work is not None and not self._work.done():
            await asyncio.wait([self._work])
