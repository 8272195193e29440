"""The watches of the controller: few, recursive, and none for a partition.

Docs: kafka-event-queue. They are set before anything is read, and only mark what has to be read
again. Notifications of the controller's own writes arrive before the reply; they are recognised by
zxid and cause no read.
"""

import random
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.store import paths
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import (
    MetadataStore,
    Notification,
    NotificationListener,
    SessionEvent,
)


class WatchedSubject(StrEnum):
    """What may have changed; at most one event per subject is queued."""

    BROKERS = "brokers changed"
    FAILURES = "replicas failed"
    TOPICS = "topics changed"
    STATES = "states changed"
    RULES = "topic rules changed"
    REQUESTS = "requests changed"


# Called with what may have changed; `Watches` has the details.
OnChange = Callable[[WatchedSubject], None]

_STATE: Final = "/leaderAndISR"
_ROOTS: Final[Mapping[str, WatchedSubject]] = {
    paths.BROKER_IDS: WatchedSubject.BROKERS,
    paths.FAILED: WatchedSubject.FAILURES,
    paths.TOPIC_CONFIGURATION: WatchedSubject.RULES,
    paths.REASSIGNED: WatchedSubject.REQUESTS,
    paths.BROKER_CONFIGURATION: WatchedSubject.REQUESTS,
    paths.DELETIONS: WatchedSubject.REQUESTS,
}


class Watches:
    """Collects what has to be read again."""

    def __init__(self, store: MetadataStore, on_change: OnChange, *, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._on_change = on_change
        self._stops: list[Callable[[], None]] = []
        # Zxids of our own transactions since the states were taken last.
        self._own: set[int] = set()
        # Newest zxid by path, and by name of the topic.
        self._states: dict[str, int] = {}
        self._names: dict[WatchedSubject, set[str]] = {
            WatchedSubject.TOPICS: set(),
            WatchedSubject.RULES: set(),
        }
        self._all: set[WatchedSubject] = set()
        self._extra_listeners: dict[str, NotificationListener] = {}

    def __len__(self) -> int:
        return max(0, len(self._stops) - 1)

    async def start(self) -> None:
        """Set the watches; from now on `on_change` is called."""
        self._stops.append(self._store.listen(self._on_session_event))
        listeners = {
            paths.TOPICS: self._on_topic_event,
            **{root: self._listener(subject) for root, subject in _ROOTS.items()},
            **self._extra_listeners,
        }
        for root, listener in listeners.items():
            self._stops.append(await set_watch(self._store, root, listener, rng=self._rng))

    def add_listener(self, root: str, listener: NotificationListener) -> None:
        """Add a listener for another root; before `start`."""
        self._extra_listeners[root] = listener

    def close(self) -> None:
        """Remove the watches."""
        for stop in self._stops:
            stop()
        self._stops = []

    def add_own(self, zxid: int) -> None:
        """Add the zxid of our own transaction, whose notifications came before its reply."""
        # Without a pending state notification the transaction has written no state.
        if self._states:
            self._own.add(zxid)

    def mark_missed(self, subject: WatchedSubject) -> None:
        """Items that were taken could not be read: read all of the subject."""
        self._all.add(subject)
        self._on_change(subject)

    # Items are returned once.

    def take_states(self) -> list[TopicPartition] | None:
        """Partitions whose state was written by others; None: possibly all."""
        states, self._states = self._states, {}
        own, self._own = self._own, set()
        if WatchedSubject.STATES in self._all:
            self._all.discard(WatchedSubject.STATES)
            return None
        changed = [path for path, zxid in states.items() if zxid not in own]
        found = map(paths.partition_of_state, changed)
        return [partition for partition in found if partition is not None]

    def take_names(self, subject: WatchedSubject) -> list[str] | None:
        """Names of topics whose subject may have changed; None: possibly all."""
        names, self._names[subject] = self._names[subject], set()
        if subject in self._all:
            self._all.discard(subject)
            return None
        return sorted(names)

    # Listening.

    def _on_topic_event(self, notification: Notification) -> None:
        # Called once per written state: every failover passes here.
        _, path, zxid = notification
        if path.endswith(_STATE):
            if not self._states:
                self._on_change(WatchedSubject.STATES)
            self._states[path] = zxid
            return
        name = paths.topic_of(path) or paths.topic_of_kafka_state(path)
        if name is not None:
            self._names[WatchedSubject.TOPICS].add(name)
            self._on_change(WatchedSubject.TOPICS)

    def _listener(self, subject: WatchedSubject) -> Callable[[Notification], None]:
        def changed(notification: Notification) -> None:
            if subject is WatchedSubject.RULES:
                name = notification.path.rpartition("/")[2]
                self._names[WatchedSubject.RULES].add(name)
            self._on_change(subject)

        return changed

    def _on_session_event(self, event: SessionEvent) -> None:
        if event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}:
            # Changes made while disconnected were not notified.
            self._all = {WatchedSubject.STATES, WatchedSubject.TOPICS, WatchedSubject.RULES}
            for subject in WatchedSubject:
                self._on_change(subject)
