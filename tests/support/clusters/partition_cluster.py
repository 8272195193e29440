"""A controller over a store in memory, and brokers that do nothing but obey."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from broker_ctl.clock import Clock
from broker_ctl.codec import decode_object, encode
from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.controller import BuildAdmin, ControllerDependencies, PartitionController
from broker_ctl.controller.procedures.procedure import ControllerContext, Procedure
from broker_ctl.controller.term import ControllerTerm
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.partitions.instructions import (
    Instruction,
    ReplicaSpan,
    ReplicaState,
    compared_row,
    digest_of,
    within,
)
from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    Assignment,
    ControllerRules,
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
    TopicRules,
    Transition,
)
from broker_ctl.errors import HttpError, NodeExists, NoNode
from broker_ctl.http_client import HttpReply
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, CreateMode, MetadataStore, Operation, SetData
from broker_ctl.store.paths import CONTROLLER_ELECTION
from broker_ctl.store.records.partitions import (
    decode_state,
    encode_broker,
    encode_state,
    encode_topic,
    encode_topic_rules,
)
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.support.time.waiting import eventually

AnyStore = MemoryStore | ZooKeeperStore
ROOTS = (
    paths.BROKERS,
    paths.BROKER_IDS,
    paths.TOPICS,
    paths.REASSIGNED,
    paths.STATE,
    paths.FAILED,
    "/config",
    paths.TOPIC_CONFIGURATION,
    "/admin",
    paths.DELETIONS,
)


def partition(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


def topic_id(name: str, life: int = 1) -> str:
    return f"{name.encode().hex()[:24]:0<31}{life}"


class Receiver:
    """A broker's daemon that takes instructions as the schema says, and keeps them.

    Attributes:
        replicas: the newest state that it took, by partition.
        instructions: all that it took, in order.
        refusals: reasons to refuse a state, by partition.
        stop_refusals: reasons to refuse the end of a replica, by partition.
        is_deaf: answers nothing.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.epoch = 0
        self.newest_controller = 0
        self.replicas: dict[TopicPartition, ReplicaState] = {}
        self.brokers: Mapping[int, str] = {}
        self.instructions: list[Instruction] = []
        self.refusals: dict[TopicPartition, str] = {}
        self.stop_refusals: dict[TopicPartition, str] = {}
        self.is_deaf = False

    @property
    def web_url(self) -> str:
        return f"http://b{self.broker_id}"

    def take(self, body: bytes) -> HttpReply:
        """Refuse or obey an instruction."""
        assert len(body) <= 512 * 1024
        instruction = Instruction.parse(decode_object(body))
        assert instruction.broker == self.broker_id
        if (
            instruction.controller_epoch < self.newest_controller
            or instruction.broker_epoch != self.epoch
        ):
            return HttpReply(409, {}, encode({"kind": "Fenced"}))
        self.newest_controller = instruction.controller_epoch
        self.instructions.append(instruction)
        self.brokers = instruction.brokers
        answer: dict[str, Any] = {"broker_epoch": self.epoch, "errors": []}
        if instruction.spans:
            differing = [n for n, span in enumerate(instruction.spans) if not self._is_as(span)]
            answer["differing"] = differing
        else:
            answer["errors"] = self._handle(instruction)
        return HttpReply(200, {}, encode(answer))

    def _is_as(self, span: ReplicaSpan) -> bool:
        replicas = [self.replicas[each] for each in within(sorted(self.replicas), *span[:2])]
        return digest_of(encode(compared_row(each)) for each in replicas) == span.digest

    def _handle(self, instruction: Instruction) -> list[list[Any]]:
        errors: list[list[Any]] = []
        named = {state.partition for state in instruction.partitions}
        for held in list(self.replicas):
            if instruction.covered_partitions([held]) and held not in named:
                del self.replicas[held]
        for state in instruction.partitions:
            held_state = self.replicas.get(state.partition)
            if state.partition in self.refusals:
                errors.append([*state.partition, self.refusals[state.partition]])
            elif held_state is not None and held_state.topic_id != state.topic_id:
                errors.append([*state.partition, "wrong_topic_id"])
            elif held_state is None or state.state.leader_epoch >= held_state.state.leader_epoch:
                self.replicas[state.partition] = state
        for stop in instruction.stops:
            held_state = self.replicas.get(stop.partition)
            if stop.partition in self.stop_refusals:
                errors.append([*stop.partition, self.stop_refusals[stop.partition]])
            elif held_state is not None and held_state.topic_id == stop.topic_id:
                del self.replicas[stop.partition]
        return errors

    def leaders(self) -> dict[TopicPartition, int]:
        return {each: replica.state.leader for each, replica in self.replicas.items()}


class KeptJournal:
    def __init__(self) -> None:
        self.rows: list[tuple[int, Transition]] = []

    def record_transitions(self, epoch: int, at_ms: int, transitions: Sequence[Transition]) -> None:
        assert at_ms > 0
        self.rows += [(epoch, transition) for transition in transitions]


@dataclass
class Running:
    """A controller that leads."""

    controller: PartitionController
    store: AnyStore
    leadership: Leadership
    instruments: ControllerInstruments
    journal: KeptJournal
    task: "asyncio.Task[None]"
    controlled: list[ControllerContext] = field(default_factory=list)

    @property
    def term(self) -> ControllerTerm:
        assert self.controller._term is not None
        return self.controller._term

    def value(self, name: str) -> float:
        """The one value of an instrument."""
        (sample,) = getattr(self.instruments, name).samples()
        return float(sample.value)


class NoProcedures(ControllerOperations):
    """The admin of a controller without any procedure."""

    @property
    def procedures(self) -> Sequence[Procedure]:
        return ()


class PartitionCluster:
    """Stores of one ensemble: an operator's, one for each broker, one for each controller."""

    def __init__(
        self,
        new_store: Callable[[], AnyStore],
        stack: AsyncExitStack,
        rules: ControllerRules,
        *,
        has_queues: bool,
    ) -> None:
        self._new_store = new_store
        self.rules = rules
        self.has_queues = has_queues
        self.clock: Clock = LoopClock()
        self.receivers: dict[int, Receiver] = {}
        self.stores: dict[int, AnyStore] = {}
        self._stack = stack
        self._tasks = TaskScope("partition cluster")
        stack.push_async_callback(self._tasks.close)
        self.operator: AnyStore
        # Of brokers that have one; a bounced broker registers with its present one.
        self.racks: dict[int, str] = {}

    async def open(self) -> AnyStore:
        store = self._new_store()
        self._stack.push_async_callback(store.close)
        await store.start()
        await store.wait_connected()
        return store

    async def prepare(self) -> None:
        self.operator = await self.open()
        for root in ROOTS:
            await self.operator.create(root)
        await self.operator.create(CONTROLLER_ELECTION.epoch_path, b"0")

    # Brokers.

    async def start_broker(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            store = self.stores[broker_id] = await self.open()
            receiver = self.receivers.setdefault(broker_id, Receiver(broker_id))
            if self.has_queues:
                self._tasks.start(self._consume(store, receiver), f"queue {broker_id}")
            await self._register(store, receiver)

    async def _register(self, store: AnyStore, receiver: Receiver) -> None:
        number = receiver.broker_id
        live = LiveBroker(
            *(number, 0, f"h{number}", 6650, f"b{number}:8080", receiver.web_url),
            rack=self.racks.get(number, ""),
        )
        node = await store.create(
            paths.broker(number), encode_broker(live, 0), CreateMode.EPHEMERAL
        )
        receiver.epoch = node.stat.czxid

    async def stop_broker(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            await self.stores.pop(broker_id).close()

    async def bounce_broker(self, broker_id: int) -> None:
        """Register a broker again at once, under another epoch."""
        store, receiver = self.stores[broker_id], self.receivers[broker_id]
        path = paths.broker(broker_id)
        await store.delete(path)
        await self._register(store, receiver)

    async def _consume(self, store: AnyStore, receiver: Receiver) -> None:
        parent = paths.queue(receiver.broker_id)
        news = asyncio.Event()
        await store.watch(parent, lambda _: news.set())
        while True:
            news.clear()
            for name in await store.children(parent):
                if receiver.is_deaf:
                    break
                node = await store.get(f"{parent}/{name}")
                if node is not None:
                    receiver.take(node.data)
                    with suppress(NoNode):  # the controller empties a queue that is too long
                        await store.delete(node.path)
            await news.wait()

    async def fail(self, broker_id: int, data: bytes) -> None:
        """Publish what a broker cannot serve."""
        store, path = self.stores[broker_id], paths.failed(broker_id)
        try:
            await store.create(path, data, CreateMode.EPHEMERAL)
        except NodeExists:
            await store.set(path, data)

    async def call(self, broker: LiveBroker, body: bytes, timeout_s: float) -> HttpReply:
        """Deliver an instruction to its broker as over the network."""
        await asyncio.sleep(0.001)
        receiver = self.receivers[int(broker.web_url.removeprefix("http://b"))]
        if receiver.is_deaf or receiver.broker_id not in self.stores:
            raise HttpError(f"{broker.web_url} does not answer within {timeout_s} s")
        return receiver.take(body)

    # Topics.

    async def create_topic(
        self,
        name: str,
        *replicas: tuple[int, ...],
        rules: TopicRules = DEFAULT_RULES,
        life: int = 1,
    ) -> None:
        """A topic with one partition for each list of replicas."""
        assignments = {number: Assignment(each) for number, each in enumerate(replicas)}
        data = encode_topic(TopicAssignment(topic_id(name, life), assignments))
        operations: list[Operation] = [Create(paths.topic(name), data)]
        if rules != DEFAULT_RULES:
            path = paths.topic_configuration(name)
            operations.append(Create(path, encode_topic_rules(rules, {})))
        await self.operator.multi(operations)

    async def state(self, of: TopicPartition) -> LeaderAndIsr | None:
        node = await self.operator.get(paths.leader_and_isr(of))
        return None if node is None else decode_state(node)

    async def led(self, of: TopicPartition, leader: int) -> LeaderAndIsr:
        """Wait until a broker leads the partition."""

        async def found() -> LeaderAndIsr | None:
            state = await self.state(of)
            return state if state is not None and state.leader == leader else None

        return await eventually(found, what=f"{leader} leads {of}")

    async def write_isr(self, of: TopicPartition, *isr: int) -> None:
        """Write the ISR of a partition as its leader would."""
        state = await self.state(of)
        assert state is not None
        path = paths.leader_and_isr(of)
        await self.operator.set(path, encode_state(state._replace(isr=isr)), state.version)

    # Controllers.

    async def lead(
        self,
        build_admin: BuildAdmin = NoProcedures,
        wrap: Callable[[Any], MetadataStore] = lambda store: store,
        *,
        waits: bool = True,
    ) -> Running:
        """A new controller, elected under the next epoch; returns when it has taken over."""
        store = await self.open()
        node = await store.get(CONTROLLER_ELECTION.epoch_path)
        assert node is not None
        epoch = node.stat.version + 1
        await store.multi([SetData(node.path, str(epoch).encode(), node.stat.version)])
        leadership = Leadership(CONTROLLER_ELECTION, epoch, lambda: None)
        instruments, journal = ControllerInstruments(), KeptJournal()
        seen: list[ControllerContext] = []

        def build(
            controlled: ControllerContext, broker_id: int, rng: random.Random
        ) -> ControllerOperations:
            seen.append(controlled)
            return build_admin(controlled, broker_id, rng)

        controller = PartitionController(
            ControllerDependencies(
                store=wrap(store),
                broker_id=0,
                call=self.call,
                clock=self.clock,
                rules=lambda: self.rules,
                has_queues=self.has_queues,
                record=journal.record_transitions,
                instruments=instruments,
                rng=random.Random(epoch),
            ),
            build,
        )
        task = self._tasks.start(controller.lead(leadership), f"epoch {epoch}", is_joined=True)
        running = Running(controller, store, leadership, instruments, journal, task, seen)
        if waits:
            await eventually(lambda: controller.has_taken_over or task.done(), what="it leads")
        return running


def in_memory() -> Callable[[], AnyStore]:
    """Stores of one ensemble in memory."""
    ensemble = MemoryEnsemble()
    return lambda: MemoryStore(ensemble, session_timeout_s=10.0, operation_timeout_s=10.0)


@asynccontextmanager
async def partition_cluster(
    *brokers: int,
    has_queues: bool = False,
    rules: ControllerRules | None = None,
    new_store: Callable[[], AnyStore] | None = None,
) -> AsyncIterator[PartitionCluster]:
    """Registered brokers without a controller yet; in memory, or on the given stores."""
    async with AsyncExitStack() as stack:
        cluster = PartitionCluster(
            new_store or in_memory(), stack, rules or ControllerRules(), has_queues=has_queues
        )
        await cluster.prepare()
        await cluster.start_broker(*brokers)
        yield cluster
        for number in tuple(cluster.stores):
            with suppress(KeyError):
                cluster.stores.pop(number)
