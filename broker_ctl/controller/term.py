"""State of one controller term, and the handler of each event."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.controller.event_queue import PAUSE_S, EventQueue
from broker_ctl.controller.procedures.broker_changes import BrokerChanges
from broker_ctl.controller.procedures.procedure import Procedure
from broker_ctl.controller.procedures.topic_changes import TopicChanges
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.fenced_writer import ends_term
from broker_ctl.controller.transport.messages import StopResponse
from broker_ctl.controller.watches import WatchedSubject, Watches
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import BrokersChanged
from broker_ctl.errors import StoreError
from broker_ctl.instruments.partitions import ControllerInstruments

log = logging.getLogger(__name__)


class ResponseInbox:
    """`ResponseListener` of one term: the answers are read when their event is handled."""

    def __init__(
        self, on_responses_added: Callable[[], None], on_silence: Callable[[], None]
    ) -> None:
        self._on_responses_added = on_responses_added
        self._on_silence = on_silence
        self._overflowed: set[int] = set()
        self._responses: list[StopResponse] = []
        self.unresponsive_brokers: set[int] = set()

    def on_stop_responses(self, responses: Sequence[StopResponse]) -> None:
        """See `ResponseListener`."""
        self._responses.extend(responses)
        self._on_responses_added()

    def unresponsive(self, broker_id: int) -> None:
        """See `ResponseListener`."""
        self.unresponsive_brokers.add(broker_id)
        self._on_silence()

    def responsive(self, broker_id: int) -> None:
        """See `ResponseListener`."""
        self.unresponsive_brokers.discard(broker_id)
        self._on_silence()

    def queue_overflowed(self, broker_id: int) -> None:
        """See `ResponseListener`."""
        self._overflowed.add(broker_id)
        self._on_silence()

    def take_overflowed(self) -> set[int]:
        """Return and clear the brokers that need a full instruction."""
        broker_ids, self._overflowed = self._overflowed, set()
        return broker_ids

    def take_responses(self) -> list[StopResponse]:
        """Return and clear the responses."""
        responses, self._responses = self._responses, []
        return responses


@dataclass(frozen=True, slots=True)
class ControllerTerm:
    """State of one term; created on election, dropped when the term ends."""

    context: Context
    queue: EventQueue
    watches: Watches
    state_changer: StateChanger
    broker_changes: BrokerChanges
    topics: TopicChanges
    inbox: ResponseInbox
    procedures: Sequence[Procedure]
    clock: Clock
    instruments: ControllerInstruments

    async def take_over(self) -> None:
        """Load all state, and finish what the previous controller left unfinished.

        Docs: kafka-procedures.
        """
        began_s = self.clock.now_s()
        context = self.context
        await self.broker_changes.load()
        await self.topics.load()
        loaded_s = self.clock.now_s()
        await self.broker_changes.catch_up()
        log.info(
            "epoch %d: %d brokers, %d topics, %d partitions read in %.3f s, elected and sent in "
            "%.3f s; %d are offline",
            context.epoch,
            len(context.brokers),
            len(context.topics),
            len(context.assignments),
            loaded_s - began_s,
            self.clock.now_s() - loaded_s,
            len(context.offline),
        )
        await self._each("resume", lambda procedure: procedure.resume())

    def on_change(self, subject: WatchedSubject) -> None:
        """Queue an event for a watch that fired, unless one of its kind is queued."""
        handlers: Mapping[WatchedSubject, Callable[[], Awaitable[None]]] = {
            WatchedSubject.BROKERS: self._on_brokers_changed,
            WatchedSubject.FAILURES: self._on_failures_changed,
            WatchedSubject.TOPICS: self._on_topics_changed,
            WatchedSubject.STATES: self._on_states_changed,
            WatchedSubject.RULES: self._on_rules_changed,
            WatchedSubject.REQUESTS: self._on_requests_changed,
        }
        self.queue.enqueue_once(subject, handlers[subject])

    def on_responses(self) -> None:
        """Queue an event: brokers have stopped replicas, or are gone."""
        self.queue.enqueue_once("stops answered", self._on_stop_responses)

    def on_silence_changed(self) -> None:
        """Queue an event: brokers stopped or resumed acknowledging, or cannot keep up."""
        self.queue.enqueue_once("silence changed", self._on_silence_changed)

    # Event handlers. Items that were taken from the watches and not handled are read again.

    async def _on_brokers_changed(self) -> None:
        began_s = self.clock.now_s()
        with self._rereading_on_error(WatchedSubject.BROKERS):
            changed = await self.broker_changes.on_brokers_changed()
        if changed is not None:
            self.instruments.election_ms.observe((self.clock.now_s() - began_s) * 1000)
            self.inbox.unresponsive_brokers -= changed.dead | changed.bounced
            await self._each("brokers", lambda procedure: procedure.on_brokers_changed(changed))

    async def _on_failures_changed(self) -> None:
        with self._rereading_on_error(WatchedSubject.FAILURES):
            await self.broker_changes.on_failures_changed()
        await self._retry_waiting()

    async def _on_silence_changed(self) -> None:
        with self._rereading_on_error(WatchedSubject.BROKERS):
            await self.broker_changes.on_silence_changed(self.inbox.unresponsive_brokers)
            await self.state_changer.send_full(self.inbox.take_overflowed())
        await self._retry_waiting()

    async def _retry_waiting(self) -> None:
        """Brokers are the same, but what waits for a leader may continue."""
        unchanged = BrokersChanged(live=self.context.brokers)
        await self._each("brokers", lambda procedure: procedure.on_brokers_changed(unchanged))

    async def _on_topics_changed(self) -> None:
        with self._rereading_on_error(WatchedSubject.TOPICS):
            changed_items = await self.topics.on_topics_changed(
                self.watches.take_names(WatchedSubject.TOPICS)
            )
        if changed_items:
            await self._each("topics", lambda procedure: procedure.on_topics_changed(changed_items))

    async def _on_states_changed(self) -> None:
        with self._rereading_on_error(WatchedSubject.STATES):
            partitions = self.watches.take_states()
            if partitions is None:
                partitions = list(self.context.assignments)
            known = [each for each in partitions if each in self.context.assignments]
            changed_items = {
                *self.state_changer.take_changed_by_others(),
                *await self.state_changer.refresh(known),
            }
        if changed_items:
            await self._each("states", lambda procedure: procedure.on_states_changed(changed_items))

    async def _on_rules_changed(self) -> None:
        with self._rereading_on_error(WatchedSubject.RULES):
            await self.topics.on_rules_changed(self.watches.take_names(WatchedSubject.RULES))

    async def _on_requests_changed(self) -> None:
        await self._each("requests", lambda procedure: procedure.on_requests_changed())

    async def _on_stop_responses(self) -> None:
        responses = self.inbox.take_responses()
        await self._each("answers", lambda procedure: procedure.on_stop_responses(responses))

    @contextmanager
    def _rereading_on_error(self, subject: WatchedSubject) -> Iterator[None]:
        """On an error, mark the whole subject to be read again: its events were taken already."""
        try:
            yield
        except Exception as error:
            if not ends_term(error):
                self.watches.mark_missed(subject)
                if subject is not WatchedSubject.STATES:
                    self.broker_changes.is_behind = True
                    self.on_change(WatchedSubject.BROKERS)
            raise

    async def _each(self, what: str, notify: Callable[[Procedure], Awaitable[None]]) -> None:
        """Notify all procedures, also after one has failed.

        If the store did not answer one of them, all requests are checked again after a pause.
        """
        is_retry_needed = False
        for procedure in self.procedures:
            try:
                await notify(procedure)
            except Exception as error:
                if ends_term(error):
                    raise
                self.instruments.event_failures.add(what)
                log.exception("%s failed to handle: %s", type(procedure).__name__, what)
                is_retry_needed |= isinstance(error, StoreError) and error.can_retry
        if is_retry_needed:
            await asyncio.sleep(PAUSE_S)
            self.on_change(WatchedSubject.REQUESTS)
