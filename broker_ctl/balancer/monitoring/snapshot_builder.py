"""Builds the `ClusterView`: a snapshot from reports, rings, moves and partitioned topics."""

import asyncio
import logging
import math
import random
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.monitoring.load_monitor import LoadMonitor
from broker_ctl.coordination.directives import NodeCache
from broker_ctl.coordination.worker_thread import WorkerThread
from broker_ctl.core.cluster.snapshot import snapshot
from broker_ctl.core.cluster.view import BrokerView, BundleView, ClusterView, InFlight
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.load import max_usage, size_ratios
from broker_ctl.core.model.names import (
    NO_TOPIC_PARTITIONS,
    Bundle,
    Namespace,
    Ring,
    Topic,
    TopicPartitions,
)
from broker_ctl.core.strategies.placement.pipeline import MisplacedBundle, misplaced_bundles
from broker_ctl.core.strategies.splitting.candidates import (
    HottestTopic,
    hot_topics,
    max_bundle_usage,
)
from broker_ctl.errors import CorruptRecord, NamespaceMissing, StoreError
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.policies import PartitionedTopic
from broker_ctl.tasks import run_all

log = logging.getLogger(__name__)

# Views that were taken before, until the planner's thread has freed their bundles.
#
# Freed at once, in the event loop, a large view would hold it up for tens of milliseconds,
# whether by the builder or by who used it for longer: a cycle that carries out its plan, or
# lookups.


class FormerViews:
    """Keeps the bundles of each view until nobody uses it any more."""

    def __init__(self) -> None:
        self._used: list[tuple[weakref.ref[ClusterView], list[BundleView]]] = []
        self._unused: list[BundleView] = []

    def keep(self, view: ClusterView) -> None:
        """Keep the bundles of a new view."""
        self._used.append((weakref.ref(view), list(view.bundles.values())))

    def freed_while_taking(self, seen: list[BundleView]) -> Iterator[BundleView]:
        """Bundles for a new view, from the last, for the planner's thread.

        It frees each of them, and all of views that nobody uses any more, as it takes them out.
        """
        used, self._used = self._used, []
        for view, bundles in used:
            if view() is not None:
                self._used.append((view, bundles))
            else:
                # In addition: another view may be under way, which frees some at this moment.
                self._unused += bundles
        return _taken_out_of(seen, self._unused)


def _taken_out_of(seen: list[BundleView], unused: list[BundleView]) -> Iterator[BundleView]:
    while seen:
        yield seen.pop()
        if unused:
            unused.pop()
    while unused:
        unused.pop()


# The partitioned topics of the cluster, as its leader reads them (docs: pulsar-binary-lookup).
#
# The nodes say how many partitions each topic has, and names say in which bundle each partition
# is: no report of a broker is needed. Until the nodes have been read for the first time the
# partitions of topics do not count in placement: to serve a bundle is worth more.


# Levels below the root: tenant, namespace, domain, topic.
_DEPTH = 4
# None: a node of a V1 name, which is not a topic.
_Row = tuple[Topic, int] | None


def _decode(node: Versioned) -> _Row:
    topic = paths.partitioned_topic_of(node.path)
    if topic is None:
        return None
    return topic, PartitionedTopic.decode(node.path, node.data).partitions


class TopicPartitionsCache:
    """Completes the constraints on placement during one term.

    Attributes:
        is_changed: whether something was read since the last refresh.

    Args:
        constraints: those without topics; a new object after each change.
    """

    def __init__(
        self,
        store: MetadataStore,
        constraints: Callable[[], Constraints],
        planner: WorkerThread,
        *,
        rng: random.Random,
    ) -> None:
        self._tree: NodeCache[_Row] = NodeCache(
            store, paths.PARTITIONED_TOPICS, _decode, _DEPTH, rng=rng
        )
        self._constraints = constraints
        self._planner = planner
        self._stop_listening: Callable[[], None] | None = None
        self.is_changed = False
        self._topics: TopicPartitions = NO_TOPIC_PARTITIONS
        self._seen = self._completed = NO_CONSTRAINTS

    async def start(self) -> None:
        """Start reading; does not wait for the result."""
        self._stop_listening = self._tree.listen(self._changed)
        await self._tree.start()

    async def close(self) -> None:
        """Stop the watch."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        await self._tree.close()

    def _changed(self) -> None:
        self.is_changed = True

    def constraints(self) -> Constraints:
        """The constraints with the topics of the last refresh; a new object after each change."""
        found = self._constraints()
        if found is not self._seen or self._completed.topics is not self._topics:
            self._seen = found
            self._completed = replace(found, topics=self._topics) if self._topics else found
        return self._completed

    async def refresh(self) -> None:
        """Take in what has been read since; in a thread, since there may be many topics."""
        if self.is_changed:
            self.is_changed = False
            rows = [row for row in self._tree.values.values() if row is not None]
            self._topics = await self._planner.run(self._topics.replaced, rows)


# Builds the `ClusterView`: a snapshot from reports, rings, moves and owner nodes.
#
# Reports say which broker owns a bundle. If two brokers report it, or none does, or the leader has
# just assigned it, its owner node is read.
#
# The view of a large cluster takes time, so the builder yields to the event loop every few
# hundred bundles. Reports, moves and rings may change meanwhile; each function that yields says
# what may have changed.


_READS_AT_ONCE: Final = 256
_ITEMS_A_TURN: Final = 256

_Item = TypeVar("_Item")


class SnapshotBuilder:
    """Builds the views of one term.

    Attributes:
        latest: the newest view.
        hot_topics: its bundles that one topic makes larger than a bundle should be.
        misplaced: its bundles on brokers that their isolation policies do not allow.
    """

    def __init__(
        self,
        dependencies: BalancerDependencies,
        epoch: int,
        load_monitor: LoadMonitor,
        memory: BundleHistory,
        topics: TopicPartitionsCache | None = None,
    ) -> None:
        self._dependencies = dependencies
        self._topics = topics
        self._epoch = epoch
        self._load_monitor = load_monitor
        self._memory = memory
        self.latest: ClusterView | None = None
        self._former_views = FormerViews()
        self.hot_topics: Mapping[Bundle, HottestTopic] = {}
        self.misplaced: tuple[MisplacedBundle, ...] = ()

    async def build(self, draw_seed: int = 0) -> ClusterView:
        """Build a new view.

        Raises:
            StoreError: a ring or an owner node could not be read.
        """
        rules = self._dependencies.rules()
        self._load_monitor.forget_unresponsive(rules.forget_s)
        if self._topics is not None:
            await self._topics.refresh()
        rings = await self._rings()
        # A move that ends while the view is built counts as in flight: its owner may be outdated.
        moves, splitting = self._moves(), set(self._memory.splitting)
        owners = await self._owners(rings)
        seen = await self._bundles(owners)
        now_s = self._dependencies.clock.now_s()
        self._memory.keep_only(self._load_monitor.loads)
        self._load_monitor.surges.advance(now_s)
        view = await self._dependencies.planner.run(
            snapshot,
            epoch=self._epoch,
            taken_at_s=now_s,
            draw_seed=draw_seed,
            brokers=self._brokers(now_s),
            bundles=self._former_views.freed_while_taking(seen),
            rings=rings.values(),
            moves=(moves | self._moves()).values(),
            splitting=self._memory.splitting | splitting,
            settled=self._memory.settled(),
            constraints=self._dependencies.constraints(),
            taken_at_ms=self._dependencies.clock.wall_ms(),
            surges=self._load_monitor.surges.current,
        )
        self._former_views.keep(view)
        misplaced = await self._dependencies.planner.run(
            misplaced_bundles, view, rules.placement_rules
        )
        most_usage = math.inf
        if rules.splitting is not None:
            most_usage = max_bundle_usage(view, rules.splitting)
        self.hot_topics = await self._dependencies.planner.run(hot_topics, view, most_usage)
        self.misplaced = misplaced
        self.latest = view
        return view

    def _brokers(self, now_s: float) -> list[BrokerView]:
        """Live brokers with a report; others can neither receive commands nor be judged."""
        rules, reports = self._dependencies.rules(), self._load_monitor.reports
        # Sorted: the sum of capacities in floating point must not depend on the order.
        present = sorted(self._dependencies.registry.peers.keys() & reports.keys())
        sizes = size_ratios({b: reports[b].data.load.usage for b in present}, rules.weights)
        return [
            BrokerView(
                broker_id,
                report.data.load,
                max_usage(report.data.load.usage, rules.weights),
                is_draining=not self._dependencies.can_receive(broker_id),
                age_s=now_s - report.received_s,
                takes_persistent=report.data.persistent_topics,
                takes_non_persistent=report.data.non_persistent_topics,
                session_id=peer.session_id,
                size_ratio=sizes[broker_id],
            )
            for broker_id, peer in self._dependencies.registry.peers.items()
            if (report := reports.get(broker_id)) is not None
        ]

    def _moves(self) -> dict[Bundle, InFlight]:
        return {
            record.move.bundle: InFlight(
                record.move.bundle,
                record.move.from_broker,
                record.move.to_broker,
                is_own=record.move.bundle not in self._memory.imposed,
            )
            for record in self._dependencies.moves.all
        }

    async def _bundles(self, owners: Mapping[Bundle, str | None]) -> list[BundleView]:
        """Bundles with averages; a report that arrives meanwhile makes some of them newer."""
        # Not by items: a hundred thousand pairs at once keep the garbage collector busy for 0.1 s.
        return [self._bundle(bundle, owners[bundle]) async for bundle in _in_turns(list(owners))]

    def _bundle(self, bundle: Bundle, owner: str | None) -> BundleView:
        remembered = self._memory.get(bundle)
        return BundleView(
            bundle,
            owner,
            self._load_monitor.load_of(bundle),
            last_unloaded_s=remembered.unloaded_s,
            last_split_s=remembered.split_s,
            hot_topic=self._memory.hot_topic(bundle),
            last_released_s=remembered.released_s,
        )

    async def _rings(self) -> Mapping[Namespace, Ring]:
        """Rings of every known namespace; the load monitor removes bundles that are in no ring.

        Reports may arrive while rings are read: bundles of namespaces that were not read wait for
        the next view.
        """
        looked_at = await self._looked_at()
        misdirected: dict[Namespace, Ring | None] = {}
        async for bundle in _in_turns(list(self._load_monitor.loads)):
            if bundle.namespace in looked_at:
                ring = looked_at[bundle.namespace]
                if ring is None or bundle not in ring:
                    misdirected[bundle.namespace] = ring
        if misdirected:
            for parent, children in self._load_monitor.reconcile(misdirected).items():
                self._memory.record_split(parent, children)
        return {name: ring for name, ring in looked_at.items() if ring is not None}

    async def _looked_at(self) -> Mapping[Namespace, Ring | None]:
        """Read the ring of every known namespace; None if it is gone."""
        rings: dict[Namespace, Ring | None] = {}
        names = {bundle.namespace async for bundle in _in_turns(list(self._load_monitor.loads))}
        in_order = sorted(names, key=lambda name: (name.tenant, name.name))
        async for namespace in _in_turns(in_order):
            try:
                rings[namespace] = await self._dependencies.ring_of(namespace)
            except NamespaceMissing:
                rings[namespace] = None
            except CorruptRecord as error:
                log.warning("left %s out of the view: %s", namespace, error)
        return rings

    async def _owners(self, rings: Mapping[Namespace, Ring]) -> Mapping[Bundle, str | None]:
        """The owner of each known bundle.

        Meanwhile reports may be replaced, brokers may go, and bundles may be assigned: each result
        is checked against the reports at that moment, so that it cannot overwrite newer knowledge.
        """
        reporters = await self._reporters()
        owners: dict[Bundle, str | None] = {}
        doubtful: list[Bundle] = []
        async for bundle in _in_turns(list(self._load_monitor.loads)):
            ring = rings.get(bundle.namespace)
            if ring is None or bundle not in ring:
                continue
            reporter = reporters.get(bundle)
            if (
                reporter is not None
                and self._is_reported(bundle, reporter)
                and self._memory.get(bundle).given_to in {None, reporter}
            ):
                owners[bundle] = reporter
                self._memory.record_report(bundle, reporter)
            else:
                doubtful.append(bundle)
        owners.update(await self._read_owners(doubtful))
        return owners

    async def _reporters(self) -> Mapping[Bundle, str | None]:
        """The live broker that reports each bundle; None if there are several."""
        live = [
            (broker_id, report)
            for broker_id, report in self._load_monitor.reports.items()
            if self._dependencies.registry.peer(broker_id) is not None
        ]
        reporters: dict[Bundle, str | None] = {}
        for broker_id, report in live:
            async for bundle in _in_turns(list(report.lines)):
                reporters[bundle] = None if bundle in reporters else broker_id
        return reporters

    def _is_reported(self, bundle: Bundle, broker_id: str) -> bool:
        report = self._load_monitor.reports.get(broker_id)
        is_live = self._dependencies.registry.peer(broker_id) is not None
        return is_live and report is not None and bundle in report.lines

    async def _read_owners(self, bundles: Sequence[Bundle]) -> Mapping[Bundle, str | None]:
        """Read owner nodes; bundles whose node does not decode are left out."""
        owners: dict[Bundle, str | None] = {}
        failures: list[StoreError] = []
        waiting = iter(bundles)

        async def work() -> None:
            for number, bundle in enumerate(waiting, 1):
                if number % _ITEMS_A_TURN == 0:
                    # Cached nodes are returned at once, without yielding.
                    await asyncio.sleep(0)
                try:
                    node = await self._dependencies.owner_of(bundle)
                except CorruptRecord as error:
                    log.warning("left %s out of the view: %s", bundle, error)
                    continue
                except StoreError as error:
                    failures.append(error)
                    return
                owners[bundle] = None if node is None else node.urls.broker_id
                self._note(bundle, owners[bundle])

        readers = range(min(_READS_AT_ONCE, len(bundles)))
        await run_all((f"read owners {number}", work()) for number in readers)
        if failures:
            failure = failures[0]
            try:
                raise failure
            finally:
                # In a variable it would stay until a search for garbage, with all owners.
                failures.clear()
                del failure
        return owners

    def _note(self, bundle: Bundle, broker_id: str | None) -> None:
        if broker_id is None:
            self._memory.record_free(bundle, self._load_monitor.last_reporter(bundle))
        else:
            self._memory.record_owner(bundle, broker_id)
            self._load_monitor.record_owner(bundle)


async def _in_turns(items: Sequence[_Item]) -> AsyncIterator[_Item]:
    """Yield each item, and yield to the event loop now and then."""
    for number, item in enumerate(items, 1):
        yield item
        if number % _ITEMS_A_TURN == 0:
            await asyncio.sleep(0)
