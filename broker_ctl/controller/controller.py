"""The partition controller: one leading from the first read to the last (docs: kafka-design-v3).

    watch -> read all -> elect -> first states -> tell every broker all -> resume -> events

Watches stand before anything is read, so that nothing is missed. Leaders are elected before the
brokers are told everything: who has no leader need not wait for the letters about all others.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.controller.event_queue import EventQueue
from broker_ctl.controller.procedures.broker_changes import BrokerChanges
from broker_ctl.controller.procedures.procedure import ControllerContext, MakeOffice
from broker_ctl.controller.procedures.topic_changes import TopicChanges
from broker_ctl.controller.state.batch_writer import BatchWriter
from broker_ctl.controller.state.recent_transitions import RecentTransitions
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.state.transition_recorder import Record
from broker_ctl.controller.store.fenced_writer import FencedWrites, ends_leading
from broker_ctl.controller.store.kafka_states import KafkaStates
from broker_ctl.controller.store.loader import Loader
from broker_ctl.controller.store.state_reader import StateReader
from broker_ctl.controller.store.topic_ids import TopicIds
from broker_ctl.controller.term import ControllerTerm, ResponseInbox
from broker_ctl.controller.transport.http import HttpTransport
from broker_ctl.controller.transport.http_sender import Call, SenderDependencies
from broker_ctl.controller.transport.messages import InstructionEncoder, ResponseListener, Transport
from broker_ctl.controller.transport.zk_queue import QueueDependencies, QueueTransport
from broker_ctl.controller.watches import WatchedSubject, Watches
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.rules import ControllerRules
from broker_ctl.core.partitions.values import DEFAULT_RULES
from broker_ctl.errors import NoController
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.ports import ControllerAdmin, TransitionJournal
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerDependencies:
    """What controlling stands on.

    Attributes:
        store: the brokers' metadata, past the lanes (`BatchedStore.control`): what is read and
            written here is gathered already.
        broker_id: of this broker.
        call: brings instructions to the daemons of brokers (`http_sender.calling`).
        rules: asked at each turn, since they may change at run time.
        has_queues: instructions go through ZKQueue, not by HTTP.
        rng: give ids to topics that have none.
        make_office: what works in one leading.
    """

    store: MetadataStore
    broker_id: int
    call: Call
    clock: Clock
    rules: Callable[[], ControllerRules]
    has_queues: bool
    journal: TransitionJournal
    instruments: ControllerInstruments
    rng: random.Random
    make_office: MakeOffice


class PartitionController:
    """What this broker does while it holds the seat ``controller``.

    `lead` is the work of the election; outside of it every call is answered with `NoController`.
    """

    def __init__(self, parts: ControllerDependencies) -> None:
        self._parts = parts
        self._leading: ControllerTerm | None = None
        self._has_taken_over = False
        self._recent = RecentTransitions()
        self._follow(parts.instruments)

    @property
    def desk(self) -> ControllerAdmin:
        """Where operators and brokers ask.

        Raises:
            NoController: this broker does not control partitions.
        """
        if self._leading is None:
            raise NoController("this broker does not control partitions")
        if not self._has_taken_over:
            # What is not read yet must not be said to be missing.
            raise NoController("this broker is about to control partitions: ask again")
        return self._leading.office.desk

    @property
    def has_taken_over(self) -> bool:
        """Whether it leads, and has seen to all that it found."""
        return self._leading is not None and self._has_taken_over

    @property
    def context(self) -> Context | None:
        """What is known while leading; it changes under whoever awaits."""
        return None if self._leading is None else self._leading.context

    async def lead(self, leadership: Leadership) -> None:
        """Control until cancelled, or until another controller was elected."""
        async with TaskScope(f"controlling at epoch {leadership.epoch}") as tasks:
            leading, transport = self._build(leadership, tasks)
            try:
                await leading.watches.start()
                self._leading = leading
                await leading.take_over()
                self._has_taken_over = True
                await leading.queue.run()
            except Exception as error:
                if not ends_leading(error):
                    raise
                log.warning("controlling at epoch %d has ended: %s", leadership.epoch, error)
            finally:
                self._leading, self._has_taken_over = None, False
                leading.watches.close()
                leading.queue.close()
                await transport.close()

    def _build(self, leadership: Leadership, tasks: TaskScope) -> tuple[ControllerTerm, Transport]:
        parts = self._parts
        store, clock, instruments, rules = parts.store, parts.clock, parts.instruments, parts.rules
        settings = rules()
        context = Context(leadership.epoch, settings.completed(DEFAULT_RULES))
        queue = EventQueue(clock, instruments)

        # Nobody tells of anything before the watches are started; then the leading stands.
        def changed(subject: WatchedSubject) -> None:
            leading.changed(subject)

        def answers_came() -> None:
            leading.answers_came()

        def silence_changed() -> None:
            leading.silence_changed()

        watches = Watches(store, changed)
        mailroom = ResponseInbox(answers_came, silence_changed)
        writes = FencedWrites(store, leadership, watches.own)
        transport = self._transport(context, mailroom, writes, watches)
        engine = self._engine(context, writes, transport)
        ids = TopicIds(store, context, writes, parts.rng)
        loader = Loader(store, context, rules, instruments, ids)
        membership = BrokerChanges(context, loader, engine, transport)
        controlled = ControllerContext(
            store, context, engine, queue, clock, rules, tasks, watches, self._recent
        )
        leading = ControllerTerm(
            context=context,
            queue=queue,
            watches=watches,
            engine=engine,
            membership=membership,
            topics=TopicChanges(context, loader, engine, membership),
            mailroom=mailroom,
            office=parts.make_office(controlled),
            clock=clock,
            instruments=instruments,
        )
        return leading, transport

    def _engine(self, context: Context, writes: FencedWrites, transport: Transport) -> StateChanger:
        parts, store = self._parts, self._parts.store
        reader = StateReader(store, context, parts.instruments)
        journals = (parts.journal, self._recent)
        record = Record(journals, context, parts.clock, parts.instruments)
        batches = BatchWriter(
            store, context, writes=writes, reader=reader, transport=transport, record=record
        )
        kafka_states = KafkaStates(
            store, context, writes=writes, reader=reader, instruments=parts.instruments
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

    def _transport(
        self, context: Context, postbox: ResponseListener, writes: FencedWrites, watches: Watches
    ) -> Transport:
        parts = self._parts
        writer = InstructionEncoder(parts.broker_id, context)
        if not parts.has_queues:
            return HttpTransport(
                SenderDependencies(
                    call=parts.call,
                    writer=writer,
                    postbox=postbox,
                    clock=parts.clock,
                    instruments=parts.instruments,
                    acknowledge_s=lambda: parts.rules().acknowledge_s,
                )
            )
        queues = QueueTransport(
            QueueDependencies(
                store=parts.store,
                writes=writes,
                writer=writer,
                postbox=postbox,
                clock=parts.clock,
                instruments=parts.instruments,
                epoch=context.epoch,
                acknowledge_s=lambda: parts.rules().acknowledge_s,
                max_queued=lambda: parts.rules().max_queued,
            )
        )
        watches.also(partition_paths.STATE, queues.heard)
        queues.start()
        return queues

    def _follow(self, instruments: ControllerInstruments) -> None:
        """Let each gauge say what is known; all of it is counted already."""

        def known(read: Callable[[ControllerTerm], int]) -> Callable[[], float]:
            return lambda: 0 if self._leading is None else read(self._leading)

        instruments.is_active.follow(known(lambda _: 1))
        instruments.offline.follow(known(lambda leading: len(leading.context.offline)))
        instruments.imbalanced.follow(known(lambda leading: leading.context.imbalanced))
        instruments.topics.follow(known(lambda leading: len(leading.context.topics)))
        instruments.partitions.follow(known(lambda leading: len(leading.context.assignments)))
        instruments.deletions.follow(known(lambda leading: len(leading.context.deleting)))
        instruments.brokers.follow(known(lambda leading: len(leading.context.brokers)))
        instruments.under_replicated.follow(
            known(lambda leading: len(leading.context.under_replicated))
        )
        instruments.under_min_isr.follow(known(lambda leading: len(leading.context.under_min_isr)))
        instruments.silent_brokers.follow(known(lambda leading: len(leading.context.silent)))
        instruments.event_queue_size.follow(known(lambda leading: len(leading.queue)))
        instruments.watches.follow(known(lambda leading: len(leading.watches)))
