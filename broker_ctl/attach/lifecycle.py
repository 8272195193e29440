"""How a daemon beside a Pulsar cluster starts, runs and stops.

It owns no bundles, so a stop only resigns from the election. Requests that were sent are executed
by the cluster regardless.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from typing import Final

from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.attach.attached import Attached
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.history.rows import ElectionName
from broker_ctl.daemon.lifecycle.frame import DaemonFrame
from broker_ctl.daemon.lifecycle.serving import open_node_check
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.history import recording
from broker_ctl.errors import StartError, StoreError
from broker_ctl.retry import retry
from broker_ctl.settings.root import Settings
from broker_ctl.store import paths
from broker_ctl.tasks import TaskScope
from broker_ctl.tracing.spans import close_tracer

log = logging.getLogger(__name__)

_STAGE_S: Final = 5.0
_LEAVE_S: Final = 30.0
_API_S: Final = 2.0
_NO_EPOCH: Final = 0


class AttachedDaemon(DaemonFrame):
    """One daemon from start to stop.

    Args:
        around: a context entered after the cluster was read and before the first act on it, and
            left after the last act.
    """

    def __init__(
        self,
        attached: Attached,
        notifier: Notifier,
        signals: StopSignals,
        around: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(attached.foundation, attached.api, attached.history, notifier, signals)
        self._attached = attached
        self._around = around

    async def _serve(self) -> None:
        base = self._base
        # Before the store starts, so that no session event is missed.
        base.watcher.start()
        await open_cluster(self._attached)
        async with self._around(), TaskScope("metadata source") as tasks:
            tasks.start(self._attached.source.watch(), "watch")
            await base.watcher.run_epochs(self._session)

    async def _session(self, epoch: int) -> None:
        """Stand for election until the session ends."""
        attached = self._attached
        attached.status.now = Readiness(is_ready=False, reason="waiting for a heartbeat")
        await self._base.watcher.wait_authority()
        attached.status.now = Readiness(is_ready=True)
        self._notifier.send("READY=1", f"STATUS=attached as {self._base.urls.broker_id}")
        lead = recording(attached.history, ElectionName.LOAD_BALANCE, attached.balancer.lead)
        try:
            await attached.election.run(lead)
        finally:
            reason = f"session {epoch} has ended"
            attached.status.now = Readiness(is_ready=False, reason=reason)

    async def _shut_down(self) -> None:
        self._attached.status.now = Readiness(is_ready=False, reason="stopping")
        if self._base.store.is_connected and self._attached.election.leadership is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STAGE_S):
                    await self._attached.election.resign()
        await self._base.watcher.close()
        if self._base.store.is_connected:
            # No other process sends heartbeats to that node, and the next run may have another
            # name.
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_STAGE_S):
                    await self._base.control.delete(paths.lease(self._base.urls.broker_id))
        await self._base.store.close()
        if self._serving is not None:
            # ``around`` has state to restore.
            await asyncio.wait([self._serving], timeout=_LEAVE_S)

    async def _take_down(self) -> None:
        """Clean up after serving has ended for any reason."""
        self._attached.status.now = Readiness(is_ready=False, reason="stopped")
        await self._base.watcher.close()
        await self._base.deletions.close()
        await close_cluster(self._attached)
        await self._base.environment.reloader.close()
        await self._attached.api.stop(_API_S)
        await self._attached.http.close()
        await self._base.audit.close()
        await close_tracer(self._base.tracer)
        if self._attached.history is not None:
            await self._attached.history.close()


async def open_cluster(attached: Attached) -> None:
    """Connect and watch the cluster; returns once it has been read.

    Raises:
        StartError: the cluster cannot be balanced from outside; says why.
        StoreClosed, RetriesUsedUp: the store was closed before, or gave up.
    """
    base = attached.foundation
    attached.balancer.start()
    await base.store.start()
    if base.configuration_store is not base.store:
        await base.configuration_store.start()
    await base.store.wait_connected()
    await base.configuration_store.wait_connected()
    base.ticks.compare(await base.store.least_timeouts_s())
    if base.configuration_store is not base.store:
        await base.configuration_store.least_timeouts_s()
    await attached.source.start()
    await retry(
        partial(_require_cluster, attached),
        f"cannot read the clusters in {paths.CLUSTERS}",
        rng=base.rng,
    )
    await retry(open_node_check(base).verify, "cannot read the ACLs of the nodes", rng=base.rng)
    await attached.nodes.start()
    await attached.constraints.start()
    await attached.directives.start()
    await attached.brokers.start()
    await attached.brokers.wait_synced()
    obstacle = await retry(
        attached.brokers.planning_obstacle, "cannot read the brokers", rng=base.rng
    )
    if obstacle is not None:
        raise StartError(obstacle)


async def _require_cluster(attached: Attached) -> None:
    """Isolation policies and failure domains are below the name of the cluster."""
    base = attached.foundation
    name = base.settings.broker.cluster_name
    known = sorted(await base.configuration.children(paths.CLUSTERS))
    if name not in known:
        raise StartError(
            f"clusterName={name} is not one of the clusters in {paths.CLUSTERS}: {', '.join(known)}"
        )


async def close_cluster(attached: Attached) -> None:
    """Stop the watches, and close the stores."""
    base = attached.foundation
    attached.balancer.close()
    await attached.source.close()
    await attached.brokers.close()
    await attached.directives.close()
    await attached.constraints.close()
    await attached.nodes.close()
    # Requests that wait in a lane fail, and the store below is closed with it.
    await base.metadata.close()
    if base.configuration is not base.metadata:
        await base.configuration.close()


@asynccontextmanager
async def observing(attached: Attached) -> AsyncIterator[None]:
    """Lead without an election, to show what would be planned; writes nothing.

    Raises:
        StartError: the cluster cannot be balanced from outside, or the observer would act beside
            the elected leader.
    """
    try:
        if attached.cluster_balancer.acts:
            raise StartError("an observer must not act on the cluster: set pulsarAct=false")
        await open_cluster(attached)
        observer = Leadership(paths.ATTACH_ELECTION, _NO_EPOCH, lambda: None)
        async with asyncio.TaskGroup() as group:
            observing_task = group.create_task(attached.balancer.lead(observer), name="observe")
            try:
                yield
            finally:
                observing_task.cancel()
    finally:
        await close_cluster(attached)
        await attached.http.close()


def build_daemon(
    settings: Settings, environment: Environment, notifier: Notifier, signals: StopSignals
) -> AttachedDaemon:
    """Build a daemon beside a Pulsar cluster; does not start it.

    Raises:
        StartError, SettingsError: a file that cannot be read, or a strategy that does not exist.
    """
    return AttachedDaemon(Attached(settings, environment), notifier, signals)
