"""State of one leadership term; created on election, dropped when the term ends."""

from dataclasses import dataclass, replace
from typing import Self

from broker_ctl.balancer.context.bundle_history import BundleHistory, OrphanProgress
from broker_ctl.balancer.context.decisions import DecisionHistory, DecisionRecorder
from broker_ctl.balancer.context.dependencies import BalancerDependencies, Executor
from broker_ctl.balancer.monitoring.load_monitor import LoadMonitor
from broker_ctl.balancer.monitoring.simple_manager import SimpleManager, is_simple
from broker_ctl.balancer.monitoring.snapshot_builder import SnapshotBuilder, TopicPartitionsCache
from broker_ctl.balancer.planning.placement import Placements
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.history.rows import BalanceTrace


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """The components of one term."""

    dependencies: BalancerDependencies
    leadership: Leadership
    load_monitor: LoadMonitor
    memory: BundleHistory
    snapshot_builder: SnapshotBuilder
    recorder: DecisionRecorder
    decision_history: DecisionHistory
    placements: Placements
    executor: Executor
    orphan_progress: OrphanProgress
    balance_trace: BalanceTrace
    topics: TopicPartitionsCache | None

    @classmethod
    def of(cls, dependencies: BalancerDependencies, leadership: Leadership) -> Self:
        """Build the components; nothing is started."""
        rng, rules = dependencies.rng, dependencies.rules
        simple = SimpleManager(dependencies.store, rng=rng) if is_simple(rules()) else None
        load_monitor = LoadMonitor(
            dependencies.store,
            dependencies.clock,
            sample_s=lambda: rules().average_sample_s,
            simple=simple,
            surge_rules=lambda: rules().surges,
            rng=rng,
        )
        topics = None
        if dependencies.configuration_store is not None:
            topics = TopicPartitionsCache(
                dependencies.configuration_store,
                dependencies.constraints,
                dependencies.planner,
                rng=rng,
            )
            dependencies = replace(dependencies, constraints=topics.constraints)
        if simple is not None:
            dependencies = replace(dependencies, rules=lambda: simple.adjusted(rules()))
        memory = BundleHistory(dependencies.clock)
        snapshot_builder = SnapshotBuilder(
            dependencies, leadership.epoch, load_monitor, memory, topics
        )
        decision_history = DecisionHistory(dependencies.store, leadership, rng=rng)
        recorder = DecisionRecorder(
            dependencies.journal, dependencies.clock, leadership.epoch, decision_history.record
        )
        placements = Placements(dependencies, leadership, load_monitor, snapshot_builder)
        executor = dependencies.build_executor(
            dependencies, leadership, memory, recorder, placements.choose
        )
        return cls(
            dependencies,
            leadership,
            load_monitor,
            memory,
            snapshot_builder,
            recorder,
            decision_history,
            placements,
            executor,
            OrphanProgress(),
            BalanceTrace(),
            topics,
        )

    async def start(self) -> None:
        """Start what reads the cluster."""
        await self.load_monitor.start()
        if self.topics is not None:
            await self.topics.start()

    async def close(self) -> None:
        """Stop it."""
        if self.topics is not None:
            await self.topics.close()
        await self.load_monitor.close()
