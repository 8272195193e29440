"""Bugs that this suite must find: each replaces one real function, and is taken out again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import pytest

from broker_ctl.broker.ownership.owner_cache import Owners
from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.coordination.election.confirmed_epoch import ConfirmedEpoch
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.coordination.locks import locks
from broker_ctl.coordination.locks.lock import Lock
from broker_ctl.coordination.locks.locks import LockBusy, Locks
from broker_ctl.coordination.replicated.node_cache import NodeCache
from broker_ctl.coordination.session.heartbeats import Heartbeats
from broker_ctl.core.machines.lock import Claim, claim_of
from broker_ctl.core.machines.watchdog import LoopWatchdog
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.partitions import elections
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr, TopicRules
from broker_ctl.daemon.lifecycle import exit_codes
from broker_ctl.daemon.lifecycle.exit_causes import OwnEnd
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.dataplane.replication.leader import LeaderState
from broker_ctl.dataplane.webhook.link import Link
from broker_ctl.store import paths
from broker_ctl.store.caches.last_read import LastRead
from broker_ctl.store.interface import Check, Operation, Result, SessionEvent
from broker_ctl.store.zookeeper import resolve

Planted = Callable[[], AbstractContextManager[None]]


@contextmanager
def _ephemeral_owner_is_not_compared() -> Iterator[None]:
    """A node that bears this broker's id is taken for its own, whatever session made it."""
    acquire = Locks.acquire

    async def adopt_any(
        self: Locks, path: str, data: bytes, on_lost: Callable[[Lock], None], *rest: Any
    ) -> Lock:
        try:
            return await acquire(self, path, data, on_lost, *rest)
        except LockBusy as busy:
            if busy.claim is not Claim.MY_EARLIER_SESSION:
                raise
            lock = self._held[path] = Lock(path, busy.node.stat, on_lost)
            return lock

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Locks, "acquire", adopt_any)
        yield


@contextmanager
def _pongs_prove_life() -> Iterator[None]:
    """A heartbeat is anything that a server answers."""

    async def ping(self: Heartbeats) -> None:
        await self._store.exists(self._path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Heartbeats, "_commit", ping)
        yield


@contextmanager
def _lost_writes_are_sent_again() -> Iterator[None]:
    """A client that hears no answer sends again, without reading first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolve, "judge", lambda *_: resolve.Verdict.NOT_APPLIED)
        yield


@contextmanager
def _epochs_are_not_checked() -> Iterator[None]:
    """A deposed leader writes, and is obeyed."""
    nothing = Check("/")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Leadership, "guard", nothing)
        patch.setattr(ConfirmedEpoch, "check", lambda *_: nothing)
        yield


@contextmanager
def _nodes_of_others_are_stolen() -> Iterator[None]:
    """An owner that stands in the way is taken for dead."""

    def mine(**node: Any) -> Claim:
        claim = claim_of(**node)
        return Claim.MINE if claim is Claim.OTHERS else claim

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "claim_of", mine)
        yield


@contextmanager
def _the_ring_is_not_checked() -> Iterator[None]:
    """A bundle is acquired by the ring as it was last read."""
    acquire = Locks.acquire

    async def unchecked(
        self: Locks,
        path: str,
        data: bytes,
        on_lost: Callable[[Lock], None],
        guards: Sequence[Operation] = (),
        *rest: Any,
    ) -> Lock:
        kept = [op for op in guards if paths.local_policies_namespace(op.path) is None]
        return await acquire(self, path, data, on_lost, kept, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Locks, "acquire", unchecked)
        yield


@contextmanager
def _the_grace_is_forgotten() -> Iterator[None]:
    """A bundle whose owner's session expired is anyone's at once."""

    async def anyone(self: Owners, bundle: Bundle, broker_id: str) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Owners, "check_reclaim", anyone)
        yield


@contextmanager
def _followers_are_not_waited_for() -> Iterator[None]:
    """A leader commits what it has alone, whichever replicas are in sync."""

    def count_nobody(self: LeaderState) -> None:
        self._counted = ()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaderState, "_count", count_nobody)
        yield


@contextmanager
def _anybody_alive_leads() -> Iterator[None]:
    """Who is in sync is nobody's question when a leader is dead."""

    def first_alive(
        assignment: Assignment,
        state: LeaderAndIsr,
        live: AbstractSet[int],
        controller_epoch: int,
        _rules: TopicRules,
    ) -> elections.Election:
        for replica in assignment.replicas[::-1]:
            if replica in live:
                epoch = state.leader_epoch + 1
                return LeaderAndIsr(replica, epoch, (replica,), controller_epoch)
        return elections.Refused(elections.ElectionRefusal.NONE_LIVES)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elections, "offline", first_alive)
        yield


@contextmanager
def _controllers_are_not_fenced() -> Iterator[None]:
    """A deposed controller goes on writing."""

    async def write(self: FencedWrites, operations: Sequence[Operation]) -> tuple[Result, ...]:
        return await self._store.multi(operations)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FencedWrites, "write", write)
        yield


@contextmanager
def _calls_have_no_numbers() -> Iterator[None]:
    """What arrives late at a broker process is carried out."""

    async def nothing(self: Link, meant_for: str) -> Mapping[str, Any]:
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Link, "_stamp", nothing)
        yield


@contextmanager
def _nothing_that_was_read_holds() -> Iterator[None]:
    """Each lookup of a bundle asks the configuration store, be it there or not."""

    async def ask(self: LastRead[Any], path: str) -> Any:
        return await self.cache.get(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LastRead, "get", ask)
        yield


@contextmanager
def _what_an_outage_hid_is_not_read() -> Iterator[None]:
    """What operators say of policies while nobody hears it stays unheard."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeCache, "_on_session_event", lambda *_: None)
        yield


@contextmanager
def _a_session_without_nodes_ends_the_daemon() -> Iterator[None]:
    """The end of any session ends the daemon, also of one in which nothing is owned."""
    changed = OwnEnd._on_store_event

    def end(self: OwnEnd, store: OwnStore, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED and store.name == "configuration-metadata-store":
            self._decide(exit_codes.SESSION_LOST, "the session is lost")
        changed(self, store, event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnEnd, "_on_store_event", end)
        yield


@contextmanager
def _dead_loops_are_pinged_for() -> Iterator[None]:
    """The thread of pings keeps the session of a loop that never runs again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoopWatchdog, "pings_until_s", lambda _, _turn_s, now_s: now_s)
        yield


@contextmanager
def _busy_loops_are_alone() -> Iterator[None]:
    """No thread pings for a loop that is busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoopWatchdog, "pings_until_s", lambda _, turn_s, _now_s: turn_s)
        yield


BUGS: Final[Mapping[str, Planted]] = {
    "skip-ephemeral-owner": _ephemeral_owner_is_not_compared,
    "trust-pongs": _pongs_prove_life,
    "resend-blindly": _lost_writes_are_sent_again,
    "drop-epoch-check": _epochs_are_not_checked,
    "steal-nodes": _nodes_of_others_are_stolen,
    "skip-ring-check": _the_ring_is_not_checked,
    "forget-reclaim-grace": _the_grace_is_forgotten,
    "commit-alone": _followers_are_not_waited_for,
    "elect-anybody": _anybody_alive_leads,
    "ask-configuration-always": _nothing_that_was_read_holds,
    "miss-configuration": _what_an_outage_hid_is_not_read,
    "end-with-configuration": _a_session_without_nodes_ends_the_daemon,
    "no-watchdog": _dead_loops_are_pinged_for,
    "no-ping-thread": _busy_loops_are_alone,
    "unnumbered-calls": _calls_have_no_numbers,
    "unfenced-controller": _controllers_are_not_fenced,
}
