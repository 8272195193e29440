"""The partition controller: from election to the end of the term (docs: kafka-design-v3).

    watch -> read all -> elect -> first states -> full instructions -> resume -> events

Watches are set before anything is read, so that nothing is missed. Leaders are elected before the
full instructions are sent: partitions without a leader do not wait for the requests of all others.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.event_queue import EventQueue
from broker_ctl.controller.procedures.broker_changes import BrokerChanges
from broker_ctl.controller.procedures.procedure import ControllerContext
from broker_ctl.controller.procedures.topic_changes import TopicChanges
from broker_ctl.controller.state.batch_writer import BatchWriter
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.state.transitions import (
    RecentTransitions,
    RecordTransitions,
    TransitionRecorder,
)
from broker_ctl.controller.store.fenced_writer import FencedWrites, ends_term
from broker_ctl.controller.store.kafka_states import KafkaStates
from broker_ctl.controller.store.loader import Loader, StateReader, TopicIds
from broker_ctl.controller.term import ControllerTerm, ResponseInbox
from broker_ctl.controller.transport.http import HTTP, Call, HttpTransport, SenderDependencies
from broker_ctl.controller.transport.messages import InstructionEncoder, ResponseListener, Transport
from broker_ctl.controller.transport.zk_queue import ZKQUEUE, QueueDependencies, QueueTransport
from broker_ctl.controller.watches import WatchedSubject, Watches
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import DEFAULT_RULES, ControllerRules
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# The operations of one term, on its procedures, for this broker.
BuildAdmin = Callable[[ControllerContext, int, random.Random], ControllerOperations]


@dataclass(frozen=True, slots=True)
class ControllerDependencies:
    """Dependencies of the partition controller.

    Attributes:
        store: the brokers' metadata without batching (`BatchedStore.control`): the controller
            batches its own reads and writes.
        broker_id: of this broker.
        call: sends instructions to the daemons of brokers (`http_sender.http_call`).
        rules: called at each use, because the rules may change at run time.
        has_queues: instructions go through ZKQueue, not by HTTP.
        rng: for the ids of topics.
    """

    store: MetadataStore
    broker_id: int
    call: Call
    clock: Clock
    rules: Callable[[], ControllerRules]
    has_queues: bool
    record: RecordTransitions
    instruments: ControllerInstruments
    rng: random.Random


class PartitionController:
    """What this broker runs while it is elected controller.

    `lead` runs while this broker is elected; a call that waits when it ends raises `NoController`.
    """

    def __init__(
        self, dependencies: ControllerDependencies, build_admin: BuildAdmin = ControllerOperations
    ) -> None:
        self._dependencies = dependencies
        self._build_admin = build_admin
        self._admin: ControllerOperations | None = None
        self._term: ControllerTerm | None = None
        self._recent = RecentTransitions()
        self._bind_gauges(dependencies.instruments)
        # Prometheus sees no increase where a series begins with the first acknowledgement.
        dependencies.instruments.acknowledge_s.labelled(
            ZKQUEUE if dependencies.has_queues else HTTP
        )

    @property
    def admin(self) -> ControllerOperations | None:
        """Requests of operators and brokers; None: this broker does not control partitions.

        None also before the takeover is complete: state that is not loaded yet must not be
        reported as missing.
        """
        return self._admin

    @property
    def has_taken_over(self) -> bool:
        """Whether this broker is controller and has completed its takeover."""
        return self._admin is not None

    @property
    def context(self) -> Context | None:
        """State of the term; it may change at each await. None: not the controller."""
        return None if self._term is None else self._term.context

    async def lead(self, leadership: Leadership) -> None:
        """Control until cancelled, or until another controller was elected."""
        async with TaskScope(f"controlling at epoch {leadership.epoch}") as tasks:
            term, admin, transport = self._build(leadership, tasks)
            try:
                await term.watches.start()
                self._term = term
                await term.take_over()
                self._admin = admin
                await term.queue.run()
            except Exception as error:
                if not ends_term(error):
                    raise
                log.warning("controller epoch %d has ended: %s", leadership.epoch, error)
            finally:
                self._term, self._admin = None, None
                term.watches.close()
                term.queue.close()
                await transport.close()

    def _build(
        self, leadership: Leadership, tasks: TaskScope
    ) -> tuple[ControllerTerm, ControllerOperations, Transport]:
        dependencies = self._dependencies
        store, clock, instruments, rules = (
            dependencies.store,
            dependencies.clock,
            dependencies.instruments,
            dependencies.rules,
        )
        settings = rules()
        context = Context(leadership.epoch, settings.with_defaults(DEFAULT_RULES))
        queue = EventQueue(clock, instruments)

        # Not called before the watches are started; by then `term` is assigned.
        def on_change(subject: WatchedSubject) -> None:
            term.on_change(subject)

        def on_responses() -> None:
            term.on_responses()

        def on_silence_changed() -> None:
            term.on_silence_changed()

        watches = Watches(store, on_change, rng=dependencies.rng)
        inbox = ResponseInbox(on_responses, on_silence_changed)
        writes = FencedWrites(store, leadership, watches.add_own)
        transport = self._build_transport(context, inbox, writes, watches)
        state_changer = self._build_state_changer(context, writes, transport)
        ids = TopicIds(store, context, writes, dependencies.rng)
        loader = Loader(store, context, rules, instruments, ids)
        broker_changes = BrokerChanges(context, loader, state_changer, transport)
        controller_context = ControllerContext(
            store, context, state_changer, queue, clock, rules, tasks, watches, self._recent
        )
        admin = self._build_admin(controller_context, dependencies.broker_id, dependencies.rng)
        term = ControllerTerm(
            context=context,
            queue=queue,
            watches=watches,
            state_changer=state_changer,
            broker_changes=broker_changes,
            topics=TopicChanges(context, loader, state_changer, broker_changes),
            inbox=inbox,
            procedures=admin.procedures,
            clock=clock,
            instruments=instruments,
        )
        return term, admin, transport

    def _build_state_changer(
        self, context: Context, writes: FencedWrites, transport: Transport
    ) -> StateChanger:
        dependencies, store = self._dependencies, self._dependencies.store
        reader = StateReader(store, context, dependencies.instruments)
        journals = (dependencies.record, self._recent.record_transitions)
        recorder = TransitionRecorder(
            journals, context, dependencies.clock, dependencies.instruments
        )
        batches = BatchWriter(
            store, context, writes=writes, reader=reader, transport=transport, recorder=recorder
        )
        kafka_states = KafkaStates(
            store, context, writes=writes, reader=reader, instruments=dependencies.instruments
        )
        return StateChanger(
            store,
            context,
            writes=writes,
            reader=reader,
            transport=transport,
            batches=batches,
            kafka_states=kafka_states,
        )

    def _build_transport(
        self, context: Context, listener: ResponseListener, writes: FencedWrites, watches: Watches
    ) -> Transport:
        dependencies = self._dependencies
        encoder = InstructionEncoder(dependencies.broker_id, context)
        if not dependencies.has_queues:
            return HttpTransport(
                SenderDependencies(
                    call=dependencies.call,
                    encoder=encoder,
                    listener=listener,
                    clock=dependencies.clock,
                    instruments=dependencies.instruments,
                    acknowledge_s=lambda: dependencies.rules().acknowledge_s,
                    rng=dependencies.rng,
                )
            )
        queues = QueueTransport(
            QueueDependencies(
                store=dependencies.store,
                writes=writes,
                encoder=encoder,
                listener=listener,
                clock=dependencies.clock,
                instruments=dependencies.instruments,
                epoch=context.epoch,
                acknowledge_s=lambda: dependencies.rules().acknowledge_s,
                max_queued=lambda: dependencies.rules().max_queued,
            )
        )
        watches.add_listener(paths.STATE, queues.on_notification)
        queues.start()
        return queues

    def _bind_gauges(self, instruments: ControllerInstruments) -> None:
        """Bind the gauges to the state of the term."""

        def read_term(read: Callable[[ControllerTerm], int]) -> Callable[[], float]:
            return lambda: 0 if self._term is None else read(self._term)

        instruments.is_active.bind(read_term(lambda _: 1))
        instruments.offline.bind(read_term(lambda term: len(term.context.offline)))
        instruments.imbalanced.bind(read_term(lambda term: term.context.imbalanced))
        instruments.topics.bind(read_term(lambda term: len(term.context.topics)))
        instruments.partitions.bind(read_term(lambda term: len(term.context.assignments)))
        instruments.deletions.bind(read_term(lambda term: len(term.context.deleting)))
        instruments.brokers.bind(read_term(lambda term: len(term.context.brokers)))
        instruments.under_replicated.bind(
            read_term(lambda term: len(term.context.under_replicated))
        )
        instruments.under_min_isr.bind(read_term(lambda term: len(term.context.under_min_isr)))
        instruments.rack_violations.bind(read_term(lambda term: len(term.context.racks.violated)))
        instruments.silent_brokers.bind(read_term(lambda term: len(term.context.silent)))
        instruments.event_queue_size.bind(read_term(lambda term: len(term.queue)))
        instruments.watches.bind(read_term(lambda term: len(term.watches)))
