"""The watches of the controller: few, recursive, and none for a partition.

Docs: kafka-event-queue. They are set before anything is read, and say only what is to be read
again. What the controller writes itself comes back too, before the reply: it is known by its zxid,
and costs no read.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import (
    MetadataStore,
    Notification,
    NotificationListener,
    SessionEvent,
)
from broker_ctl.store.watching import set_watch


class WatchedSubject(StrEnum):
    """What may have changed; one event for each waits at a time."""

    BROKERS = "brokers changed"
    FAILURES = "replicas failed"
    TOPICS = "topics changed"
    STATES = "states changed"
    RULES = "topic rules changed"
    REQUESTS = "requests changed"


# Told what may have changed; which of them, `Watches` knows.
OnChange = Callable[[WatchedSubject], None]

_STATE: Final = "/leaderAndISR"
_ROOTS: Final[Mapping[str, WatchedSubject]] = {
    partition_paths.BROKER_IDS: WatchedSubject.BROKERS,
    partition_paths.FAILED: WatchedSubject.FAILURES,
    partition_paths.TOPIC_CONFIGURATION: WatchedSubject.RULES,
    partition_paths.REASSIGNED: WatchedSubject.REQUESTS,
    partition_paths.DELETIONS: WatchedSubject.REQUESTS,
}


class Watches:
    """What is to be read again."""

    def __init__(self, store: MetadataStore, on_change: OnChange) -> None:
        self._store = store
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
        self._others: dict[str, NotificationListener] = {}

    def __len__(self) -> int:
        return max(0, len(self._stops) - 1)

    async def start(self) -> None:
        """Set them; from now on `on_change` is called."""
        self._stops.append(self._store.listen(self._session_changed))
        topics = partition_paths.TOPICS
        self._stops.append(await set_watch(self._store, topics, self._topic_changed))
        for root, subject in _ROOTS.items():
            self._stops.append(await set_watch(self._store, root, self._listener(subject)))
        for root, listener in self._others.items():
            self._stops.append(await set_watch(self._store, root, listener))

    def also(self, root: str, listener: NotificationListener) -> None:
        """Let somebody else hear of what happens there; before the start."""
        self._others[root] = listener

    def close(self) -> None:
        """Hear nothing more."""
        for stop in self._stops:
            stop()
        self._stops = []

    def own(self, zxid: int) -> None:
        """A transaction of ours: its notifications have come before its reply."""
        # Where no state is to be read again it has written none, and is nothing to remember.
        if self._states:
            self._own.add(zxid)

    def missed(self, subject: WatchedSubject) -> None:
        """What was taken has not been read: all of the subject is to be."""
        self._all.add(subject)
        self._on_change(subject)

    # What is taken is not told again.

    def take_states(self) -> list[TopicPartition] | None:
        """Partitions whose state others have written; None: any may have been."""
        states, self._states = self._states, {}
        own, self._own = self._own, set()
        if WatchedSubject.STATES in self._all:
            self._all.discard(WatchedSubject.STATES)
            return None
        changed = [path for path, zxid in states.items() if zxid not in own]
        found = map(partition_paths.partition_of_state, changed)
        return [partition for partition in found if partition is not None]

    def take_names(self, subject: WatchedSubject) -> list[str] | None:
        """Topics of which the subject may have changed, by name; None: of any."""
        names, self._names[subject] = self._names[subject], set()
        if subject in self._all:
            self._all.discard(subject)
            return None
        return sorted(names)

    # Listening.

    def _topic_changed(self, notification: Notification) -> None:
        # One for each state that anybody writes: this is on the way of every failover.
        _, path, zxid = notification
        if path.endswith(_STATE):
            if not self._states:
                self._on_change(WatchedSubject.STATES)
            self._states[path] = zxid
            return
        name = partition_paths.topic_of(path) or partition_paths.topic_of_kafka_state(path)
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

    def _session_changed(self, event: SessionEvent) -> None:
        if event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}:
            # What changed while the connection was gone was not told.
            self._all = {WatchedSubject.STATES, WatchedSubject.TOPICS, WatchedSubject.RULES}
            for subject in WatchedSubject:
                self._on_change(subject)
