"""Lookup: which broker serves a topic (docs: pulsar-lookup)."""

import asyncio
import itertools
import logging
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from broker_ctl.broker.lookup.fallback_placement import (
    PATIENCE_S,
    FallbackPlacement,
    LeaderAbsence,
    ReceiverCheck,
)
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.ownership import Ownership
from broker_ctl.clock import Clock
from broker_ctl.coordination.membership.cluster import LiveCluster
from broker_ctl.coordination.session import SessionWatcher
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.machines.session import SessionAction, SessionState
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import PERSISTENT, Bundle, Namespace, Ring, Topic
from broker_ctl.errors import (
    AuthorityLost,
    BundleBusy,
    BundleMoving,
    ConnectionLoss,
    ForeignNamespace,
    NoBroker,
    NoLeader,
)
from broker_ctl.security.placement_proofs import PlacementProofs
from broker_ctl.store import paths
from broker_ctl.store.cached_values import LastRead, ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.policies import ClusterRecord, replication_clusters
from broker_ctl.store.watched_cache import CacheRules
from broker_ctl.tasks import SingleFlight

log = logging.getLogger(__name__)

# Routing of lookups between clusters (docs: pulsar-http-lookup).
#
# Policies name the clusters that serve a namespace. Clients of a namespace served elsewhere are
# redirected to a peer cluster if one of those clusters is a peer, and get an error otherwise.
# Policies that name no cluster mean this one: earlier releases wrote such policies.
#
# Lookups check this first, and continue during an outage of the configuration store with the
# cached values.


@dataclass(frozen=True, slots=True)
class _Clusters:
    """The clusters that a namespace's policies name; empty if they name none."""

    names: tuple[str, ...]


def _decode_clusters(node: Versioned) -> _Clusters:
    return _Clusters(replication_clusters(node.path, node.data))


def _decode_cluster(node: Versioned) -> ClusterRecord:
    return ClusterRecord.decode(node.path, node.data)


class ClusterRouter:
    """Finds peer clusters for namespaces of other clusters; reads the store until `start`."""

    def __init__(
        self,
        configuration_store: MetadataStore,
        cluster: str,
        clock: Clock,
        rules: CacheRules,
        *,
        rng: random.Random,
    ) -> None:
        self._cluster = cluster
        store, most = configuration_store, rules.most_entries
        policies = ValueCache(store, (paths.POLICIES,), _decode_clusters, clock, rules, rng=rng)
        clusters = ValueCache(store, (paths.CLUSTERS,), _decode_cluster, clock, rules, rng=rng)
        self._policies = LastRead(policies, store, most)
        self._clusters = LastRead(clusters, store, most)

    @property
    def caches(self) -> Mapping[str, ValueCache[_Clusters] | ValueCache[ClusterRecord]]:
        """The caches by name, for metrics."""
        return {"namespace-clusters": self._policies.cache, "clusters": self._clusters.cache}

    async def start(self) -> None:
        """Watch policies and clusters."""
        await self._policies.start()
        await self._clusters.start()

    async def close(self) -> None:
        """Stop the watches."""
        await self._policies.close()
        await self._clusters.close()

    def is_known_local(self, namespace: Namespace) -> bool:
        """Whether memory says that this cluster serves a namespace; False also while unknown."""
        entry = self._policies.recall(paths.policies(namespace))
        return entry is not None and (entry.answer is None or self._is_among(entry.answer))

    @property
    def version(self) -> int:
        """Grows with each change of what `is_known_local` answers from."""
        return self._policies.cache.version

    async def peer_cluster_of(self, namespace: Namespace) -> BrokerUrls | None:
        """The addresses of the peer cluster that serves a namespace; None if this cluster does.

        Raises:
            ForeignNamespace: it is served elsewhere, but not by a peer.
            CorruptRecord: its policies do not decode.
        """
        found = await self._policies.get(paths.policies(namespace))
        if found is None or self._is_among(found):
            return None
        own = await self._clusters.get(paths.cluster(self._cluster))
        peers = () if own is None else own.peers
        for name in found.names:
            peer = await self._clusters.get(paths.cluster(name)) if name in peers else None
            if peer is not None:
                return peer.urls(name)
        raise ForeignNamespace(
            f"namespace {namespace} is served in {', '.join(found.names)}, not in {self._cluster}"
        )

    def _is_among(self, found: _Clusters) -> bool:
        return not found.names or self._cluster in found.names


# Answers under the lease: waiting requests fail at once when this broker may no longer act.
#
# Without a connection a read would wait for its return, or for a whole operation timeout; clients
# that are asked to retry sooner may find another broker.


class LeaseGuard:
    """The scopes in progress under one session watcher."""

    def __init__(self, watcher: SessionWatcher) -> None:
        self._watcher = watcher
        # A dict keeps their order, which a set does not: a run must replay from its seed.
        self._under_way: dict[Scope, None] = {}
        watcher.listen(self._heard)

    def is_allowed(self) -> bool:
        """Whether this broker may act at this moment."""
        try:
            self._watcher.check()
        except AuthorityLost:
            return False
        return True

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the store."""
        return self._watcher.state is SessionState.CONNECTED

    @property
    def has_store(self) -> bool:
        """Whether the store is connected and has answered a short time ago."""
        return self._watcher.has_store

    def held(self, *, needs_store: bool = False) -> "Scope":
        """A scope in which this broker may act; its task is interrupted when it no longer may.

        ``needs_store``: also when the connection to the store is lost.

        Raises:
            AuthorityLost: this broker may not act, or the authority (or the connection) ended
                inside the scope.
        """
        return Scope(self._watcher, self._under_way, needs_store=needs_store)

    def _heard(self, action: SessionAction) -> None:
        if action not in {SessionAction.FENCE, SessionAction.CONNECTION_LOST}:
            return
        is_allowed, is_connected = self.is_allowed(), self.is_connected
        ended = tuple(
            scope
            for scope in self._under_way
            if not is_allowed or (scope.needs_store and not is_connected)
        )
        if ended:
            # Not cancelled right here: the caller of the watcher may itself be a task in such a
            # scope, and a task that cancels itself is interrupted at its next await, wherever that
            # is.
            asyncio.get_running_loop().call_soon(_fence, ended)


def _fence(scopes: "tuple[Scope, ...]") -> None:
    for scope in scopes:
        scope.fence()


class Scope:
    """See `LeaseGuard.held`. Each lookup uses one, so it costs neither a timer nor an await.

    It ends as `asyncio.Timeout` does: only its own cancellation becomes another error.
    """

    __slots__ = ("_cancelling", "_is_fenced", "_task", "_under_way", "_watcher", "needs_store")

    def __init__(
        self,
        watcher: SessionWatcher,
        under_way: "dict[Scope, None]",
        *,
        needs_store: bool = False,
    ) -> None:
        self.needs_store = needs_store
        self._watcher = watcher
        self._under_way = under_way
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._is_fenced = False

    def __enter__(self) -> Self:
        self._watcher.check()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a lease scope needs a running task")
        self._task = task
        self._cancelling = task.cancelling()
        self._under_way[self] = None
        return self

    def fence(self) -> None:
        """Interrupt the task that waits in the scope; does nothing once the scope was left."""
        if self._task is not None and not self._is_fenced:
            self._is_fenced = True
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self._under_way.pop(self, None)
        if task is None or not self._is_fenced:
            return
        # Others may also have cancelled the task: their cancellation continues.
        is_own = task.uncancel() <= self._cancelling
        if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
            self._watcher.check()
            what = "connection to ZooKeeper was lost" if self.needs_store else "session ended"
            raise AuthorityLost(f"the {what} during the request") from error


# Lookup: which broker serves a topic (docs: pulsar-lookup).
#
# An owned bundle: the client connects to its owner. A bundle without an owner: a follower
# redirects the client to the leader, and the leader to the broker that it chose; that broker
# acquires the bundle on an authoritative request, unless placement could not have chosen it: any
# client may call itself authoritative. Over HTTP a redirect carries a proof of that choice. The
# loser of a race answers with the winner. If there is no leader for a while, the broker that was
# asked decides.
#
# Lookups of the same bundle share one placement: when a broker dies, the clients of all its topics
# look them up at once.
#
# While ZooKeeper is away, a broker answers for what it serves itself under its lease, and refuses
# all else at once: a client that gets an answer asks another broker, one that waits does not.


# Who receives a bundle that nobody owns, asked for a topic of that domain; as `LoadBalancer.place`.
Place = Callable[[Bundle, str], Awaitable[str]]

_LATENCIES_KEPT: Final = 1024
# How long an answer is given again that nothing has changed meanwhile.
ANSWER_LIFE_S: Final = 1.0
# How long a lookup waits for the store that this broker could answer without it, or that gets no
# answer while the store is away or silent. Reads take a few milliseconds.
_PATIENCE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect to the bundle's owner, which serves it."""

    urls: BrokerUrls


@dataclass(frozen=True, slots=True)
class Redirect:
    """Ask this broker; with ``is_authoritative`` it acquires the bundle.

    ``proof``, for the URL of the redirect, shows that it was chosen; empty: there is none.
    """

    urls: BrokerUrls
    is_authoritative: bool
    proof: str = ""


@dataclass(frozen=True, slots=True)
class PeerCluster:
    """Ask the peer cluster with these addresses."""

    urls: BrokerUrls


Answer = Connect | Redirect | PeerCluster


@dataclass(frozen=True, slots=True)
class LookupStatistics:
    """Totals since the start; ``recent_s`` are the newest latencies in seconds."""

    answers: int
    redirects: int
    failures: int
    pending: int
    recent_s: tuple[float, ...]


# The boundaries of a ring, and an answer for each of its bundles.
_Answers = tuple[Sequence[int], list[Connect | Redirect | None]]


class RecentAnswers:
    """What was answered for bundles last, while the version of all that they were made of stands.

    They live for at most `ANSWER_LIFE_S`: then caches are asked again, which refresh what has aged.
    """

    def __init__(self) -> None:
        self._by_namespace: dict[Namespace, _Answers] = {}
        self._version = -1
        self._until_s = 0.0

    def find(self, topic: Topic, version: int, now_s: float) -> Connect | Redirect | None:
        """The answer for the bundle of a topic, if it was given under this version."""
        if version != self._version or now_s >= self._until_s:
            self._by_namespace.clear()
            self._version, self._until_s = version, now_s + ANSWER_LIFE_S
            return None
        found = self._by_namespace.get(topic.namespace)
        return None if found is None else found[1][bisect_right(found[0], topic.ring_hash)]

    def keep(self, topic: Topic, ring: Ring, answer: Connect | Redirect) -> None:
        """Keep an answer that was just found."""
        ends = ring.boundaries
        # The last hash of all is the upper end of the last bundle, and has a place of its own.
        found = self._by_namespace.setdefault(topic.namespace, (ends, [None] * (len(ends) + 1)))
        found[1][bisect_right(ends, topic.ring_hash)] = answer


class Lookup:
    """Answers lookups on this broker."""

    def __init__(
        self,
        *,
        ownership: Ownership,
        namespaces: Namespaces,
        cluster: LiveCluster,
        placement: Callable[[], Place | None],
        cluster_router: ClusterRouter,
        fallback: FallbackPlacement,
        receiver_check: ReceiverCheck,
        proofs: PlacementProofs | None,
        authorised: LeaseGuard,
        clock: Clock,
    ) -> None:
        self._ownership = ownership
        self._namespaces = namespaces
        self._cluster = cluster
        self._placement = placement
        self._cluster_router = cluster_router
        self._fallback = fallback
        self._receiver_check = receiver_check
        self._proofs = proofs
        self._authorised = authorised
        self._clock = clock
        self._in_flight: SingleFlight[tuple[Bundle, str, bool], Answer] = SingleFlight("lookups")
        self._leader_absence = LeaderAbsence()
        self._recent_answers = RecentAnswers()
        self._answers = 0
        self._redirects = 0
        self._failures = 0
        self._pending = 0
        self._recent_s: deque[float] = deque(maxlen=_LATENCIES_KEPT)

    def statistics(self) -> LookupStatistics:
        """A snapshot of the counts, for metrics."""
        recent_s = tuple(self._recent_s)
        return LookupStatistics(
            self._answers, self._redirects, self._failures, self._pending, recent_s
        )

    async def peer_cluster_of(self, namespace: Namespace) -> BrokerUrls | None:
        """The peer cluster that serves a namespace; None if this cluster does.

        Raises:
            ForeignNamespace: it is served elsewhere, but not by a peer.
        """
        return await self._cluster_router.peer_cluster_of(namespace)

    async def bundle_of(self, topic: Topic) -> Bundle:
        """The bundle that holds a topic.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        return (await self._namespaces.ring(topic.namespace)).bundle_of(topic)

    @property
    def version(self) -> int:
        """Grows with each change of what the answers of `recall` are made of.

        Not with time: `is_allowed` may end without a change, and caches refresh what has aged.
        """
        changes = (
            self._cluster_router.version
            + self._namespaces.cache.version
            + self._ownership.version
            + self._cluster.version
        )
        # Whether this broker leads is no number that grows: so it is a digit of its own.
        return 2 * changes + (self._placement() is None)

    def is_allowed(self) -> bool:
        """Whether this broker may answer at this moment."""
        return self._authorised.is_allowed()

    def recall_ring(self, topic: Topic) -> Ring | None:
        """The ring that a topic is on, if memory has it."""
        return self._namespaces.recall_ring(topic.namespace)

    def count_recalled(self, connects: int, redirects: int, took_s: float) -> None:
        """Count lookups that were answered by what `recall` said before, together in this time."""
        self._answers += connects
        self._redirects += redirects
        number = connects + redirects
        self._recent_s.extend(itertools.repeat(took_s / number, min(number, _LATENCIES_KEPT)))

    def recall(self, topic: Topic, *, authoritative: bool) -> Connect | Redirect | None:
        """Where the clients of a topic connect, if memory has the answer; None: `find` decides.

        Most lookups are answered so, in less than half the time of `find`: nothing changes during
        a call that does not wait, so there is nothing to guard, to share or to cancel.
        """
        began_s = self._clock.now_s()
        if not self._authorised.is_allowed():
            return None
        answer = self._recent_answers.find(topic, self.version, began_s)
        if answer is None or (authoritative and isinstance(answer, Redirect)):
            found = self.recall_anew(topic, authoritative=authoritative)
            if found is None:
                return None
            ring, answer = found
            self._recent_answers.keep(topic, ring, answer)
        if isinstance(answer, Connect):
            self._answers += 1
        else:
            self._redirects += 1
        self._recent_s.append(self._clock.now_s() - began_s)
        return answer

    def recall_anew(
        self, topic: Topic, *, authoritative: bool
    ) -> tuple[Ring, Connect | Redirect] | None:
        """As `recall`, from those who know: policies, ring, owners, the leader."""
        namespace = topic.namespace
        if not self._cluster_router.is_known_local(namespace):
            return None
        ring = self._namespaces.recall_ring(namespace)
        if ring is None:
            return None
        bundle = ring.bundle_of(topic)
        if (urls := self._ownership.recall_owner(bundle)) is not None:
            return ring, Connect(urls)
        redirect = None if authoritative else self._recall_redirect(bundle)
        return None if redirect is None else (ring, redirect)

    async def find(
        self,
        topic: Topic,
        *,
        authoritative: bool = False,
        proof: str | None = None,
        is_preloading: bool = False,
    ) -> Answer:
        """Find where the clients of a topic connect.

        ``authoritative``: the request says that this broker was chosen. ``proof`` is what shows it,
        empty if it is missing; None: the protocol of the request cannot carry one.

        ``is_preloading``: if this broker acquires the bundle for the request, all topics of the
        bundle are opened at once, since their clients are on the way too (docs: pulsar-lookup).

        Raises:
            NamespaceMissing: there is no such namespace.
            ForeignNamespace: it is not served in this cluster.
            NoLeader, NoBroker, BundleMoving, BundleReclaimable, Draining: retry later.
            AuthorityLost: this broker may not answer now; retry later.
        """
        began_s = self._clock.now_s()
        self._pending += 1
        try:
            answer = await self._find_promptly(
                topic, authoritative, proof, is_preloading=is_preloading
            )
        except (Exception, asyncio.CancelledError):
            # Cancelled: the request timed out, or its client disconnected. There is no answer to
            # count.
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

    async def _find_promptly(
        self, topic: Topic, authoritative: bool, proof: str | None, *, is_preloading: bool
    ) -> Answer:
        """As `find`; waits for no store that is away."""
        authorised = self._authorised
        is_prompt = not authorised.has_store or self._serves(topic)
        try:
            with authorised.held(needs_store=True):
                async with asyncio.timeout(_PATIENCE_S if is_prompt else None):
                    return await self._find(
                        topic, authoritative, proof, is_preloading=is_preloading
                    )
        except (TimeoutError, AuthorityLost, ConnectionLoss) as error:
            is_back = authorised.is_connected and not isinstance(error, TimeoutError)
            if is_back and not self._serves(topic):
                raise
            with authorised.held():
                return self._served_here(topic)

    def _serves(self, topic: Topic) -> bool:
        """Whether this broker serves a topic; that needs no ring, which may be out of reach."""
        held = self._ownership.held_at(topic.namespace, topic.ring_hash)
        return held is not None and held.state is BundleState.OWNED

    def _served_here(self, topic: Topic) -> Connect:
        held = self._ownership.held_at(topic.namespace, topic.ring_hash)
        if held is None:
            what = "does not answer" if self._authorised.is_connected else "is away"
            raise AuthorityLost(
                f"ZooKeeper {what}, and {topic} is not served here: ask another broker"
            )
        if held.state is not BundleState.OWNED:
            raise held.unavailable_error()
        return Connect(self._ownership.urls)

    async def _find(
        self, topic: Topic, authoritative: bool, proof: str | None, *, is_preloading: bool
    ) -> Answer:
        elsewhere = await self._cluster_router.peer_cluster_of(topic.namespace)
        if elsewhere is not None:
            return PeerCluster(elsewhere)
        if self._serves(topic) or not self._authorised.is_connected:
            with self._authorised.held():
                return self._served_here(topic)
        bundle = await self.bundle_of(topic)
        return await self.find_bundle(
            bundle,
            topic.domain,
            authoritative=authoritative,
            proof=proof,
            is_preloading=is_preloading,
        )

    async def find_bundle(
        self,
        bundle: Bundle,
        domain: str = PERSISTENT,
        *,
        authoritative: bool = False,
        proof: str | None = None,
        is_preloading: bool = False,
    ) -> Answer:
        """As `find`, for a bundle; also for admin requests that need its owner.

        ``domain`` is that of the topic in the lookup: some brokers serve only one of the two
        domains.
        """
        owner = await self._ownership.owner_of(bundle)
        if owner is not None:
            return Connect(owner.urls)
        if authoritative and proof is not None and self._proofs is not None:
            authoritative = self._proofs.accept(proof, bundle)
        if not authoritative and (sent := self._redirect_for(bundle)) is not None:
            return sent

        async def settle() -> Answer:
            if self._pinned_broker(bundle) == self._ownership.broker_id:
                return await self._acquire(bundle, is_preloading=is_preloading)
            if authoritative:
                await self._receiver_check.check(bundle)
                return await self._acquire(bundle, is_preloading=is_preloading)
            return await self._place(bundle, domain, is_preloading=is_preloading)

        return await self._in_flight.do((bundle, domain, authoritative), settle, f"settle {bundle}")

    async def close(self) -> None:
        """Cancel the placements in progress."""
        await self._in_flight.close()

    def _recall_redirect(self, bundle: Bundle) -> Redirect | None:
        if not self._ownership.is_known_free(bundle):
            return None
        try:
            return self._redirect_for(bundle)
        except NoBroker:
            return None

    def _redirect_for(self, bundle: Bundle) -> Redirect | None:
        """A redirect to the leader or to the pinned broker; None if that is this one."""
        pinned = self._pinned_broker(bundle)
        if pinned is not None:
            is_own = pinned == self._ownership.broker_id
            return None if is_own else self._send_to(pinned, is_authoritative=True)
        leader = self._cluster.leader_urls() if self._placement() is None else None
        if leader is None or leader.broker_id == self._ownership.broker_id:
            return None
        self._leader_absence.end()
        return Redirect(leader, is_authoritative=False)

    async def _place(self, bundle: Bundle, domain: str, *, is_preloading: bool) -> Answer:
        """Place a bundle without an owner, for which this broker decides."""
        place = self._placement() or self._without_leader(bundle)
        chosen = await place(bundle, domain)
        if chosen == self._ownership.broker_id:
            return await self._acquire(bundle, is_preloading=is_preloading)
        sent = self._send_to(chosen, is_authoritative=True)
        proofs = self._proofs
        return sent if proofs is None else replace(sent, proof=proofs.make(bundle, chosen))

    def _pinned_broker(self, bundle: Bundle) -> str | None:
        """The live broker that a heartbeat or SLA namespace names; its bundles belong there."""
        namespace = bundle.namespace
        is_live = namespace.is_pinned and self._cluster.urls_of(namespace.name) is not None
        return namespace.name if is_live else None

    async def _acquire(self, bundle: Bundle, *, is_preloading: bool) -> Answer:
        try:
            await self._ownership.acquire(bundle, is_preloading=is_preloading)
        except BundleBusy as busy:
            # The winner of the race is in the store; the client is redirected there.
            owner = await self._ownership.owner_of(bundle)
            if owner is None:
                raise BundleMoving(f"{bundle} is changing its owner") from busy
            return Connect(owner.urls)
        return Connect(self._ownership.urls)

    def _without_leader(self, bundle: Bundle) -> Place:
        """The placement to use once there has been no leader for long enough.

        Raises:
            NoLeader: an election is probably in progress.
        """
        if self._leader_absence.observe(self._clock.now_s()) < PATIENCE_S:
            raise NoLeader(f"{bundle}: no broker leads at present")
        return self._fallback.place

    def _send_to(self, broker_id: str, *, is_authoritative: bool) -> Redirect:
        urls = self._cluster.urls_of(broker_id)
        if urls is None:
            raise NoBroker(f"{broker_id} is not registered (any more)")
        return Redirect(urls, is_authoritative)
