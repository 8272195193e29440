"""One leading of the controller: its rooms, and what each event does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.controller.event_queue import PAUSE_S, EventQueue
from broker_ctl.controller.procedures.broker_changes import BrokerChanges
from broker_ctl.controller.procedures.procedure import Procedure, Procedures
from broker_ctl.controller.procedures.topic_changes import TopicChanges
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.fenced_writer import ends_leading
from broker_ctl.controller.transport.messages import StopAnswer
from broker_ctl.controller.watches import WatchedSubject, Watches
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import BrokersChanged
from broker_ctl.errors import StoreError
from broker_ctl.instruments.partitions import ControllerInstruments

log = logging.getLogger(__name__)


class ResponseInbox:
    """`ResponseListener` of one term: the answers are read when their event has its turn."""

    def __init__(self, on_answers: Callable[[], None], on_silence: Callable[[], None]) -> None:
        self._on_answers = on_answers
        self._on_silence = on_silence
        self._overflowed: set[int] = set()
        self._answers: list[StopAnswer] = []
        self.silent: set[int] = set()

    def stops_answered(self, answers: Sequence[StopAnswer]) -> None:
        """See `ResponseListener`."""
        self._answers.extend(answers)
        self._on_answers()

    def fell_silent(self, broker_id: int) -> None:
        """See `ResponseListener`."""
        self.silent.add(broker_id)
        self._on_silence()

    def spoke_again(self, broker_id: int) -> None:
        """See `ResponseListener`."""
        self.silent.discard(broker_id)
        self._on_silence()

    def overflowed(self, broker_id: int) -> None:
        """See `ResponseListener`."""
        self._overflowed.add(broker_id)
        self._on_silence()

    def take_overflowed(self) -> set[int]:
        """Brokers that had better be told everything anew."""
        overflowed, self._overflowed = self._overflowed, set()
        return overflowed

    def take_answers(self) -> list[StopAnswer]:
        """Those that were not taken yet."""
        answers, self._answers = self._answers, []
        return answers


@dataclass(frozen=True, slots=True)
class ControllerTerm:
    """The rooms of one leading, wired; nothing of it survives."""

    context: Context
    queue: EventQueue
    watches: Watches
    engine: StateChanger
    membership: BrokerChanges
    topics: TopicChanges
    mailroom: ResponseInbox
    office: Procedures
    clock: Clock
    instruments: ControllerInstruments

    async def take_over(self) -> None:
        """Learn everything, and see to what the controller before has left.

        Docs: kafka-procedures.
        """
        began_s = self.clock.now_s()
        context = self.context
        await self.membership.load()
        await self.topics.load()
        loaded_s = self.clock.now_s()
        await self.membership.catch_up()
        log.info(
            "epoch %d: %d brokers, %d topics, %d partitions read in %.3f s, led and told in %.3f "
            "s; %d are offline",
            context.epoch,
            len(context.brokers),
            len(context.topics),
            len(context.assignments),
            loaded_s - began_s,
            self.clock.now_s() - loaded_s,
            len(context.offline),
        )
        await self._each("resume", lambda procedure: procedure.resume())

    def changed(self, subject: WatchedSubject) -> None:
        """A watch fired: an event, unless one of the kind waits."""
        handlers: Mapping[WatchedSubject, Callable[[], Awaitable[None]]] = {
            WatchedSubject.BROKERS: self._brokers_changed,
            WatchedSubject.FAILURES: self._failures_changed,
            WatchedSubject.TOPICS: self._topics_changed,
            WatchedSubject.STATES: self._states_changed,
            WatchedSubject.RULES: self._rules_changed,
            WatchedSubject.REQUESTS: self._requests_changed,
        }
        self.queue.notice(subject, handlers[subject])

    def answers_came(self) -> None:
        """Brokers have ended replicas, or are gone: an event."""
        self.queue.notice("stops answered", self._stops_answered)

    def silence_changed(self) -> None:
        """Brokers do not acknowledge, or do again, or cannot keep up: an event."""
        self.queue.notice("silence changed", self._silence_changed)

    # What the events do. Whatever is taken from the watches and not done is to be read again.

    async def _brokers_changed(self) -> None:
        began_s = self.clock.now_s()
        with self._behind_on(WatchedSubject.BROKERS):
            changed = await self.membership.brokers_changed()
        if changed is not None:
            self.instruments.election_ms.observe((self.clock.now_s() - began_s) * 1000)
            self.mailroom.silent -= changed.dead | changed.bounced
            await self._each("brokers", lambda procedure: procedure.brokers_changed(changed))

    async def _failures_changed(self) -> None:
        with self._behind_on(WatchedSubject.FAILURES):
            await self.membership.failures_changed()
        await self._who_can_serve_changed()

    async def _silence_changed(self) -> None:
        with self._behind_on(WatchedSubject.BROKERS):
            await self.membership.silence_changed(self.mailroom.silent)
            await self.engine.send_full(self.mailroom.take_overflowed())
        await self._who_can_serve_changed()

    async def _who_can_serve_changed(self) -> None:
        """Nobody came or went; but what waits for a leader may go on."""
        nobody = BrokersChanged(live=self.context.brokers)
        await self._each("brokers", lambda procedure: procedure.brokers_changed(nobody))

    async def _topics_changed(self) -> None:
        with self._behind_on(WatchedSubject.TOPICS):
            news = await self.topics.changed(self.watches.take_names(WatchedSubject.TOPICS))
        if news:
            await self._each("topics", lambda procedure: procedure.topics_changed(news))

    async def _states_changed(self) -> None:
        with self._behind_on(WatchedSubject.STATES):
            partitions = self.watches.take_states()
            if partitions is None:
                partitions = list(self.context.assignments)
            known = [each for each in partitions if each in self.context.assignments]
            news = {*self.engine.take_found(), *await self.engine.refresh(known)}
        if news:
            await self._each("states", lambda procedure: procedure.states_changed(news))

    async def _rules_changed(self) -> None:
        with self._behind_on(WatchedSubject.RULES):
            await self.topics.rules_changed(self.watches.take_names(WatchedSubject.RULES))

    async def _requests_changed(self) -> None:
        await self._each("requests", lambda procedure: procedure.requests_changed())

    async def _stops_answered(self) -> None:
        answers = self.mailroom.take_answers()
        await self._each("answers", lambda procedure: procedure.stops_answered(answers))

    @contextmanager
    def _behind_on(self, subject: WatchedSubject) -> Iterator[None]:
        """Where it was not carried through nobody will tell again: all of it is looked at later."""
        try:
            yield
        except Exception as error:
            if not ends_leading(error):
                self.watches.missed(subject)
                if subject is not WatchedSubject.STATES:
                    self.membership.is_behind = True
                    self.changed(WatchedSubject.BROKERS)
            raise

    async def _each(self, what: str, tell: Callable[[Procedure], Awaitable[None]]) -> None:
        """All of them hear of it, whatever becomes of one.

        One to which the store did not answer looks at all that is under way after a while.
        """
        is_unanswered = False
        for procedure in self.office.procedures:
            try:
                await tell(procedure)
            except Exception as error:
                if ends_leading(error):
                    raise
                self.instruments.event_failures.add(what)
                log.exception("%s: %s", type(procedure).__name__, what)
                is_unanswered |= isinstance(error, StoreError) and error.can_retry
        if is_unanswered:
            await asyncio.sleep(PAUSE_S)
            self.changed(WatchedSubject.REQUESTS)
