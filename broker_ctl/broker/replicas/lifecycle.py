"""The replicas of this broker over its registrations (docs: kafka-design-v3)."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.broker.replicas.instructions import (
    FailedReplicas,
    Handled,
    ReplicaInstructions,
    ReplicationThrottle,
    StrayReplicas,
)
from broker_ctl.broker.replicas.zk_queue import ZkQueue
from broker_ctl.coordination.election import ConfirmedEpoch
from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.coordination.session import Grant
from broker_ctl.core.partitions.elections import with_isr
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.core.partitions.values import LeaderAndIsr, TopicPartition
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook.replica_wire import IsrAnswer, IsrProposal, ReplicaPlane
from broker_ctl.errors import CorruptRecord, DataPlaneError, HttpError, StoreError
from broker_ctl.peer_http import AddressSource, PeerHttp, urls_at
from broker_ctl.retry import is_undecided, retry
from broker_ctl.store import paths
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import decode_state, encode_state

log = logging.getLogger(__name__)

# The authority under which partition leaders on this broker accept writes.
#
# Docs: kafka-failure-kinds, kafka-design-v3. A leader that resumes after a pause has an expired
# lease and accepts no writes. A new session would give it a new lease while it still believes
# that it leads; if it was alone in its ISR and another broker was elected uncleanly, both would
# commit. A session therefore begins without authority for replicas until all former leaders on
# this broker have been stopped: every leader then leads by an instruction of this session.


class ReplicaAuthority:
    """Passes the session's authority on while it is granted to replicas for that session."""

    def __init__(self) -> None:
        self._grant = Grant(0, 0.0)
        self._granted_epoch = 0

    def on_grant(self, grant: Grant) -> None:
        """Listener of the session watcher."""
        self._grant = grant

    def grant(self, epoch: int) -> None:
        """Grant authority for the session: every leader here has an instruction of this session."""
        self._granted_epoch = epoch

    def revoke(self) -> None:
        """Revoke: leaders accept no writes until the next grant."""
        self._granted_epoch = 0

    def is_granted(self, epoch: int) -> bool:
        """Return whether replicas have the authority of session ``epoch``."""
        return self._granted_epoch == epoch

    def current(self) -> Authority:
        """The current authority; read it at each act."""
        grant = self._grant
        return Authority(grant.epoch, grant.deadline_s if self.is_granted(grant.epoch) else 0.0)


# ISR changes requested by leaders on this broker (docs: kafka-paths, kafka-isr).
#
# The broker writes the partition's state node by compare-and-set. If the controller wrote it
# first, the leader gets the newer state. A write whose answer is lost is resolved by the next
# read: the node either has the requested ISR or does not (KAFKA-14144).


_States = dict[TopicPartition, LeaderAndIsr | None]

# Writes in flight at once; the store sends them in a few batches.
_IN_FLIGHT: Final = 256


class IsrChanges:
    """Asks the data plane for ISR changes, and writes them.

    Args:
        lag_time_s: seconds after which a lagging follower leaves the ISR.
        removals: see `KnownReplicas`.
        throttle: bytes a second for replicas that reassignments add; None: no limit.

    Attributes:
        expanded, shrunk: number of ISR changes written.
        refused: number of requests that a newer state overtook, or that could not be written.
    """

    def __init__(
        self,
        store: MetadataStore,
        plane: ReplicaPlane,
        broker_id: int,
        lag_time_s: float,
        *,
        removals: Callable[[], int],
        throttle: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._store = store
        self._plane = plane
        self._broker_id = broker_id
        self._lag_time_s = lag_time_s
        self._removals = removals
        self._throttle = throttle
        self.expanded = 0
        self.shrunk = 0
        self.refused = 0

    async def settle(self) -> int:
        """Write the ISR changes that are possible now; returns the number of requests.

        A topic may have been deleted, and made again by its name, since the leaders were asked:
        leader epoch and version can be those of the former one. No topic is gone before this
        broker has removed its replicas: after a removal nothing is written or answered.

        Raises:
            DataPlaneError, StoreError: the leader repeats the requests that got no answer.
        """
        removals = self._removals()
        proposals = await self._plane.isr_proposals(self._lag_time_s, self._throttle())
        if not proposals:
            return 0
        known = await self._read(proposals)
        open_proposals = [
            proposal for proposal in proposals if self._is_open(proposal, known[proposal.partition])
        ]
        written = await self._write(open_proposals, known, removals)
        # The states after successful writes are known; all others are read again.
        doubtful = [proposal for proposal in open_proposals if proposal.partition not in written]
        known |= await self._read(doubtful)
        known |= written
        if self._removals() != removals:
            return len(proposals)
        answers = [
            self._answer(proposal, state)
            for proposal in proposals
            # A state older than the leader's comes from a server that lags behind.
            if (state := known[proposal.partition]) is None or state.version >= proposal.version
        ]
        await self._plane.answer_proposals(answers)
        return len(proposals)

    async def _read(self, proposals: Sequence[IsrProposal]) -> _States:
        paths = [partition_paths.leader_and_isr(proposal.partition) for proposal in proposals]
        states: _States = {}
        for proposal, node in zip(proposals, await self._store.get_many(paths), strict=True):
            try:
                states[proposal.partition] = None if node is None else decode_state(node)
            except CorruptRecord as error:
                log.warning("the ISR of %s cannot be read: %s", proposal.partition, error)
                states[proposal.partition] = None
        return states

    def _is_open(self, proposal: IsrProposal, state: LeaderAndIsr | None) -> bool:
        """Return whether the request would change the state, and nothing forbids it."""
        return (
            state is not None
            and state.leader == self._broker_id
            and state.leader_epoch == proposal.leader_epoch
            and state.version == proposal.version
            and state.isr != proposal.isr
            and self._broker_id in proposal.isr
        )

    async def _write(
        self, proposals: Sequence[IsrProposal], known: _States, removals: int
    ) -> _States:
        """Write the changes; returns the new states of the writes that certainly succeeded."""
        written: _States = {}
        waiting = iter(proposals)

        async def work() -> None:
            for proposal in waiting:
                if self._removals() != removals:
                    return
                state = known[proposal.partition]
                assert state is not None
                new = with_isr(state, proposal.isr)._replace(version=state.version + 1)
                path = partition_paths.leader_and_isr(proposal.partition)
                try:
                    await self._store.set(path, encode_state(new), state.version)
                except StoreError as error:
                    log.info("the ISR of %s was not written: %s", proposal.partition, error)
                    continue
                written[proposal.partition] = new
                if len(new.isr) > len(state.isr):
                    self.expanded += 1
                else:
                    self.shrunk += 1

        async with asyncio.TaskGroup() as group:
            for number in range(min(_IN_FLIGHT, len(proposals))):
                group.create_task(work(), name=f"ISR {number}")
        return written

    def _answer(self, proposal: IsrProposal, state: LeaderAndIsr | None) -> IsrAnswer:
        is_granted = (
            state is not None
            and state.leader == self._broker_id
            and state.leader_epoch == proposal.leader_epoch
            and state.isr == proposal.isr
        )
        self.refused += not is_granted
        return IsrAnswer(proposal.partition, state, is_granted)


# Controlled shutdown: the controller moves leaderships off a broker before it stops.
#
# Docs: kafka-procedures. The partitions change leaders in one batch while the broker still
# serves, so no client waits for a session to expire. Requests are repeated with growing pauses,
# so that they do not keep a busy controller busy.


_PATH: Final = "/control/v1/controlled-shutdown"
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class ShutdownRules:
    """How often and how long a broker asks the controller to move its leaderships.

    Attributes:
        max_retries: number of requests after the first one.
        backoff_s: pause before the first retry; it doubles with each further retry.
        timeout_s: timeout of one request.
    """

    max_retries: int = 3
    backoff_s: float = 1.0
    timeout_s: float = 10.0


class ControlledShutdown:
    """Requests of one broker to lead no partition any more.

    Args:
        replicas: returns the number of replicas on this broker; without any it sends no request.
        controller: returns the name and web address of the controller's daemon; None if no
            controller is known.
    """

    def __init__(
        self,
        ids: BrokerIds,
        http: PeerHttp,
        rules: ShutdownRules,
        *,
        replicas: Callable[[], int],
        controller: Callable[[], tuple[str, str] | None],
    ) -> None:
        self._ids = ids
        self._http = http
        self._rules = rules
        self._replicas = replicas
        self._controller = controller

    async def run(self) -> bool:
        """Ask until this broker leads nothing; False if it still leads or the result is unknown.

        The caller sets the deadline. The broker may stop with either result: partitions that it
        still leads get new leaders when its registration goes.
        """
        pause_s = self._rules.backoff_s
        for attempt in range(self._rules.max_retries + 1):
            if attempt:
                await asyncio.sleep(pause_s)
                pause_s *= 2
            # The session, and this registration with it, may have ended during the pause.
            if not self._ids.epoch:
                return False
            if not self._replicas():
                return True
            if await self._is_done():
                log.info("controlled shutdown: this broker leads no partition any more")
                return True
        log.warning(
            "controlled shutdown: this broker still leads partitions; stopping nevertheless"
        )
        return False

    async def _is_done(self) -> bool:
        found = self._controller()
        if found is None:
            log.info("controlled shutdown: no controller is known to ask for new leaders")
            return False
        body = {
            "broker": self._ids.broker_id,
            "broker_epoch": self._ids.epoch,
            "force": False,
        }
        try:
            reply = await self._http.request(
                "POST",
                urls_at(*found),
                _PATH,
                AddressSource.ELECTION,
                json=body,
                timeout_s=self._rules.timeout_s,
            )
            row = reply.json()
        except HttpError as error:
            log.info("controlled shutdown: no answer from controller %s: %s", found[0], error)
            return False
        if reply.status != _OK or not isinstance(row, Mapping):
            log.info("controlled shutdown: %s answered with status %d", found[0], reply.status)
            return False
        return _is_done_reply(row)


def _is_done_reply(row: Mapping[str, Any]) -> bool:
    led, reason = row.get("led"), row.get("reason")
    if row.get("is_done") is True and not led:
        return True
    count = len(led) if isinstance(led, list) else 0
    log.info("controlled shutdown: this broker still leads %d partitions; %s", count, reason or "")
    return False


# The replicas of this broker over its registrations (docs: kafka-design-v3).
#
# Each registration begins with all replicas stopped. Replicas of a deleted topic whose name was
# reused are removed; then the broker registers, and the controller sends it the states of all its
# replicas and the strays to remove. The broker does not read assignments or states itself, as in
# Kafka's design v3: they would be older than the instructions.
#
# A registration ends with the session, or when the broker process restarts and has forgotten its
# instructions. The controller sends everything to a broker that registers again.


# Listing all replicas, to find logs that failed, is expensive. The interval grows with their
# number, so that tens of thousands of idle replicas cost less than a hundredth of a core, also over
# HTTP.
_LIST_S: Final = 5.0
_LIST_EACH_S: Final = 0.0003
_STOP_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ReplicaDependencies:
    """The parts that `Replicas` depends on.

    Attributes:
        instance_id: returns the instance id of the broker process.
        poll_s: interval between requests for pending ISR changes.
        lag_time_s: seconds after which a lagging follower leaves the ISR.
        rng: for the pauses of retries.
    """

    store: MetadataStore
    ids: BrokerIds
    plane: ReplicaPlane
    authority: ReplicaAuthority
    instance_id: Callable[[], str]
    poll_s: float
    lag_time_s: float
    rng: random.Random


@dataclass(frozen=True, slots=True)
class ReplicaStatistics:
    """Counts for metrics; all except the first two are totals since the start."""

    held: int
    failed: int
    queued_applied: int
    queued_corrupt: int
    stale: int
    isr_expanded: int
    isr_shrunk: int
    isr_refused: int


class Replicas:
    """The replicas of this broker; lives as long as the store.

    Attributes:
        throttle: applies to every registration; its owner starts and closes it.
    """

    def __init__(self, dependencies: ReplicaDependencies) -> None:
        self._dependencies = dependencies
        store, ids = dependencies.store, dependencies.ids
        self._failed = FailedReplicas(store, ids.broker_id, rng=dependencies.rng)
        self._controller_epoch = ConfirmedEpoch(store, paths.CONTROLLER_ELECTION)
        self._instructions = ReplicaInstructions(
            dependencies.plane,
            ids.broker_id,
            self._current_broker_epoch,
            self._controller_epoch,
            strays=StrayReplicas(store, ids.broker_id),
            failed=self._failed,
        )
        self._queue = ZkQueue(store, ids.broker_id, self._instructions.handle, rng=dependencies.rng)
        self.throttle = ReplicationThrottle(store, rng=dependencies.rng)
        self._isr = IsrChanges(
            store,
            dependencies.plane,
            ids.broker_id,
            dependencies.lag_time_s,
            removals=lambda: self._instructions.known.removals,
            throttle=lambda: self.throttle.rate,
        )
        self._session_epoch = 0
        self._instance_id = ""

    # Read by other parts.

    @property
    def ids(self) -> BrokerIds:
        """The number of this broker, and its epoch."""
        return self._dependencies.ids

    @property
    def newest_controller_epoch(self) -> int:
        """The newest controller epoch that the store has confirmed."""
        return self._controller_epoch.newest

    @property
    def failed(self) -> Mapping[TopicPartition, str]:
        """Replicas that cannot be served, with the reason."""
        return self._failed.reasons

    def is_granted(self, epoch: int) -> bool:
        """Return whether no replica acts on an instruction from a session before ``epoch``."""
        return self._dependencies.authority.is_granted(epoch)

    async def handle(self, instruction: Instruction) -> Handled:
        """See `ReplicaInstructions.handle`."""
        return await self._instructions.handle(instruction)

    def count_led(self) -> int:
        """Count the partitions that this broker leads; iterates over all replicas."""
        return self._instructions.count_led()

    def statistics(self) -> ReplicaStatistics:
        """Return the current counts."""
        return ReplicaStatistics(
            held=len(self._instructions.known),
            failed=len(self._failed.reasons),
            queued_applied=self._queue.applied,
            queued_corrupt=self._queue.corrupt,
            stale=self._instructions.fenced,
            isr_expanded=self._isr.expanded,
            isr_shrunk=self._isr.shrunk,
            isr_refused=self._isr.refused,
        )

    # Registrations, one after the other.

    async def prepare(self, epoch: int) -> None:
        """Stop all replicas at the start of a session, before it grants any authority.

        Returns once the broker process and the store have answered; there is no time limit.
        """
        self.on_session_end()
        await retry(
            self._begin,
            "cannot list the replicas",
            rng=self._dependencies.rng,
            judge=lambda error: is_undecided(error) or isinstance(error, DataPlaneError),
            level=logging.WARNING,
        )
        self._session_epoch = epoch
        self._dependencies.authority.grant(epoch)

    async def _begin(self) -> None:
        # Read before the request, so that a restart during the request is noticed.
        self._instance_id = self._dependencies.instance_id()
        self._dependencies.plane.expect(self._instance_id)
        await self._controller_epoch.read()
        await self._instructions.begin()

    async def enter(self) -> None:
        """Register, so that the controller sends the states of all replicas; call `prepare` first.

        Raises:
            StartError: another process has the id of this broker.
        """
        # Published first: elections must know which replicas cannot be served.
        await self._failed.publish()
        await self._dependencies.ids.register()

    async def run(self) -> None:
        """Execute instructions until cancelled, or until the broker process ends after `leave`.

        Call `enter` first.

        Raises:
            StartError: another process has the id of this broker.
        """
        stop_watching = await self._queue.watch()
        try:
            while True:
                await self._live()
                if self._instructions.is_over:
                    return  # a stopping broker must not register again
                log.warning(
                    "the broker process restarted: registering again for all its instructions"
                )
                await self._dependencies.ids.unregister()
                await self.prepare(self._session_epoch)
                await self.enter()
        finally:
            stop_watching()

    def on_session_end(self) -> None:
        """The session has ended, or its authority is given back."""
        self._dependencies.ids.on_session_end()
        self._dependencies.authority.revoke()

    def revoke(self) -> None:
        """Revoke the authority of replicas: the broker process is silent."""
        self._dependencies.authority.revoke()

    async def leave(self) -> None:
        """End this registration on purpose: stop all leaders, then unregister from the controller.

        Bundles are handed over after this, so the broker process keeps its authority. The authority
        of replicas is revoked only if the process cannot be asked to stop its leaders; that happens
        before any other broker is elected.
        """
        is_over = False
        try:
            async with asyncio.timeout(_STOP_S):
                is_over = await self._instructions.stop_leading()
        except (DataPlaneError, TimeoutError) as error:
            log.warning("cannot stop the leading replicas: %r; revoking their authority", error)
        if not is_over:
            self._dependencies.authority.revoke()
        await self._dependencies.ids.unregister()

    def _current_broker_epoch(self) -> int:
        """The broker epoch; 0 also if the broker process restarted since this registration.

        A state that the controller repeats at an unchanged leader epoch must have been read after
        all ISR changes of the former process (KIP-497). Registering again ensures that.
        """
        is_same = self._dependencies.instance_id() == self._instance_id
        return self._dependencies.ids.epoch if is_same else 0

    async def _live(self) -> None:
        """Run while registered; returns when the broker process has restarted."""
        async with asyncio.TaskGroup() as group:
            living = [
                group.create_task(self._dependencies.ids.keep(), name="broker id"),
                group.create_task(self._queue.run(), name="instructions"),
                group.create_task(self._failed.keep(), name="failed replicas"),
            ]
            await self._watch_dataplane()
            for task in living:
                task.cancel()

    async def _watch_dataplane(self) -> None:
        loop = asyncio.get_running_loop()
        listed_s = loop.time()
        while self._dependencies.instance_id() == self._instance_id:
            # A throttle applies at once: the copies that it is for begin after it was written.
            await self.throttle.wait_changed(self._dependencies.poll_s)
            try:
                await self._isr.settle()
                if loop.time() - listed_s >= _LIST_S + _LIST_EACH_S * len(self._instructions.known):
                    self._instructions.on_listing(await self._dependencies.plane.replicas())
                    listed_s = loop.time()
            except (DataPlaneError, StoreError) as error:
                # Requests stay pending until they are answered. Other parts notice a silent process
                # and the end of the session.
                log.info("ISR changes are not applied yet: %s; retrying", error)
