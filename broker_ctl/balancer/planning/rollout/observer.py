"""What the leader sees of the brokers of a rollout."""

from broker_ctl.balancer.planning.rollout.in_sync import InSync
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rollout.broker_machine import State as BrokerState
from broker_ctl.core.rollout.gates import Readings, awaits_report
from broker_ctl.core.rollout.rollout import BrokerProgress, Rollout


class RolloutObserver:
    """The readings of one moment; `on` gives it the view of that moment."""

    def __init__(self, term: LeaderTerm) -> None:
        self._term = term
        self._registry = term.dependencies.registry
        self._view: ClusterView | None = None
        self._msg_rate_before = 0.0
        self._in_sync = InSync(term.dependencies.store, term.dependencies.clock)
        self._lagging: tuple[str, ...] = ()

    async def on(self, view: ClusterView, rollout: Rollout) -> "RolloutObserver":
        """The observer with the view of this moment.

        Raises:
            StoreError: the states of the partitions could not be read.
        """
        self._view, self._msg_rate_before = view, rollout.msg_rate
        if any(each.state is BrokerState.CHECKING for each in rollout.current):
            self._lagging = await self._in_sync.lagging(rollout.live_ids)
        return self

    async def live_ids(self) -> tuple[int, ...]:
        """See `InSync.live_ids`."""
        return await self._in_sync.live_ids()

    def msg_rate(self) -> float:
        """Messages/s of the cluster, by the newest reports."""
        reports = self._term.load_monitor.reports.values()
        return sum(report.data.load.total.msg_rate for report in reports)

    def run_of(self, broker_id: str) -> str | None:
        """The run of a registered broker; None: it is not alive."""
        peer = self._registry.peer(broker_id)
        return None if peer is None else peer.run

    def bundles_left(self, broker_id: str) -> int:
        """Bundles that a broker owns or that are leaving it, without pinned ones."""
        assert self._view is not None
        broker = self._view.brokers.get(broker_id)
        held = () if broker is None else broker.owned
        owned = sum(not bundle.namespace.is_pinned for bundle in held)
        return owned + sum(
            record.move.from_broker == broker_id for record in self._term.dependencies.moves.all
        )

    def readings(self, progress: BrokerProgress) -> Readings:
        """What is seen of a restarted broker."""
        peer = self._registry.peer(progress.broker_id)
        report = self._term.load_monitor.reports.get(progress.broker_id)
        # The report of the process before may be known for longer than its registration.
        if report is not None and peer is not None and report.czxid < peer.czxid:
            report = None
        return Readings(
            None if peer is None else peer.run,
            progress.run_before,
            progress.is_healthy,
            "" if report is None else report.data.load.version,
            report is not None,
            self._stale(),
            self._lagging,
            self.msg_rate(),
            self._msg_rate_before,
        )

    def _stale(self) -> tuple[str, ...]:
        """See `Readings.stale`."""
        assert self._view is not None
        view, reports = self._view, self._term.load_monitor.reports
        return tuple(
            sorted(
                broker_id
                for broker_id, broker in view.brokers.items()
                if (report := reports.get(broker_id)) is not None
                and not report.data.load.unlisted_bundles
                and awaits_report(
                    (
                        view.bundles[one]
                        for one in broker.owned - report.lines.keys()
                        if one in view.bundles
                    ),
                    report.received_s,
                    report.data.load.total,
                )
            )
        )
