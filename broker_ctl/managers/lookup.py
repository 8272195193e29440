"""Who serves a topic, and who shall (reference: pulsar-load-management 8.1).

Owner known: connect there. Nobody owns it: the leader decides, so a follower sends the client to
the leader and the leader to the broker that it chose; an authoritative request acquires here. The
loser of a race answers with the winner.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.broker import BrokerUrls
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.names import Topic
from broker_ctl.errors import BundleBusy, BundleMoving, NoBroker, NoLeader
from broker_ctl.managers.namespaces import Namespaces
from broker_ctl.managers.ownership import Ownership
from broker_ctl.ports import Cluster, Placement

log = logging.getLogger(__name__)

_LATENCIES_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class Connect:
    """The bundle's owner; it serves."""

    urls: BrokerUrls


@dataclass(frozen=True, slots=True)
class Redirect:
    """Ask this broker; with ``is_authoritative`` it shall acquire the bundle."""

    urls: BrokerUrls
    is_authoritative: bool


Answer = Connect | Redirect


@dataclass(frozen=True, slots=True)
class LookupStatistics:
    """Counts since start; ``recent_s`` are the newest latencies in seconds."""

    answers: int
    redirects: int
    failures: int
    pending: int
    recent_s: tuple[float, ...]


class Lookup:
    """Lookups of this broker."""

    def __init__(
        self,
        *,
        ownership: Ownership,
        namespaces: Namespaces,
        cluster: Cluster,
        placement: Callable[[], Placement | None],
        clock: Clock,
    ) -> None:
        self._ownership = ownership
        self._namespaces = namespaces
        self._cluster = cluster
        self._placement = placement
        self._clock = clock
        self._answers = 0
        self._redirects = 0
        self._failures = 0
        self._pending = 0
        self._recent_s: deque[float] = deque(maxlen=_LATENCIES_KEPT)

    def statistics(self) -> LookupStatistics:
        """An immutable value to export."""
        recent_s = tuple(self._recent_s)
        return LookupStatistics(
            self._answers, self._redirects, self._failures, self._pending, recent_s
        )

    async def bundle_of(self, topic: Topic) -> Bundle:
        """The bundle that holds a topic.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        return (await self._namespaces.ring(topic.namespace)).bundle_of(topic)

    async def find(self, topic: Topic, *, authoritative: bool = False) -> Answer:
        """Where the clients of a topic go.

        Raises:
            NamespaceMissing: there is no such namespace.
            NoLeader, NoBroker, BundleMoving, BundleReclaimable, Draining, AuthorityLost: later.
        """
        began_s = self._clock.now_s()
        self._pending += 1
        try:
            answer = await self.find_bundle(
                await self.bundle_of(topic), authoritative=authoritative
            )
        except Exception:
            self._failures += 1
            raise
        finally:
            self._pending -= 1
            self._recent_s.append(self._clock.now_s() - began_s)
        if isinstance(answer, Connect):
            self._answers += 1
        else:
            self._redirects += 1
        return answer

    async def find_bundle(self, bundle: Bundle, *, authoritative: bool = False) -> Answer:
        """As `find`, for a bundle; admin verbs that need its owner use it too."""
        owner = await self._ownership.owner_of(bundle)
        if owner is not None:
            return Connect(owner.urls)
        pinned = self._pinned_broker(bundle)
        if authoritative or pinned == self._ownership.broker_id:
            return await self._take(bundle)
        if pinned is not None:
            return self._send_to(pinned, is_authoritative=True)
        placement = self._placement()
        if placement is None:
            return self._send_to_leader(bundle)
        chosen = await placement.place(bundle)
        if chosen == self._ownership.broker_id:
            return await self._take(bundle)
        return self._send_to(chosen, is_authoritative=True)

    def _pinned_broker(self, bundle: Bundle) -> str | None:
        """Heartbeat and SLA namespaces belong to the live broker that they name."""
        namespace = bundle.namespace
        is_live = namespace.is_pinned and self._cluster.urls_of(namespace.name) is not None
        return namespace.name if is_live else None

    async def _take(self, bundle: Bundle) -> Answer:
        try:
            await self._ownership.acquire(bundle)
        except BundleBusy as busy:
            # The winner stands in the store; who asked us is sent there.
            owner = await self._ownership.owner_of(bundle)
            if owner is None:
                raise BundleMoving(f"{bundle} changes hands") from busy
            return Connect(owner.urls)
        return Connect(self._ownership.urls)

    def _send_to_leader(self, bundle: Bundle) -> Redirect:
        leader = self._cluster.leader()
        if leader is None or leader[0] == self._ownership.broker_id:
            raise NoLeader(f"{bundle}: nobody leads at the moment")
        return self._send_to(leader[0], is_authoritative=False)

    def _send_to(self, broker_id: str, *, is_authoritative: bool) -> Redirect:
        urls = self._cluster.urls_of(broker_id)
        if urls is None:
            raise NoBroker(f"{broker_id} is not registered (any more)")
        return Redirect(urls, is_authoritative)
