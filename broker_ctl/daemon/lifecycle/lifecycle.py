"""How a daemon starts and stops (docs: session-scope, stopping).

The API runs outside of every session, so that /readyz can say why the daemon is not ready while a
session is rebuilt. A stop reverses the start, with a deadline for each stage.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

from broker_ctl.api.http.dependencies import Readiness
from broker_ctl.daemon.lifecycle import exits
from broker_ctl.daemon.lifecycle.frame import DaemonFrame
from broker_ctl.daemon.lifecycle.serving import Serving
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.partitions import PartitionParts
from broker_ctl.errors import BrokerCtlError
from broker_ctl.tracing.spans import close_tracer

log = logging.getLogger(__name__)

_STAGE_S: Final = 5.0
_API_S: Final = 2.0
# After such an end the daemon owns nothing.
_NOTHING_LEFT: Final = {exits.SESSION_LOST, exits.HISTORY_BEHIND}


class Daemon(DaemonFrame):
    """One broker's control plane, from start to stop."""

    def __init__(self, assembly: Assembly, notifier: Notifier, signals: StopSignals) -> None:
        history = assembly.services.history
        super().__init__(assembly.foundation, assembly.api, history, notifier, signals)
        self._assembly = assembly
        self._coordination = assembly.coordination
        self._services = assembly.services
        self._partitions = assembly.partitions

    async def _serve(self) -> None:
        await Serving(self._assembly, self._notifier).run()

    async def _shut_down(self) -> None:
        store = self._base.store
        self._assembly.status.now = Readiness(is_ready=False, reason="draining")
        self._services.ownership.is_draining = True
        environment = self._base.environment
        if store.session_id and environment.keeps_session(self._base.settings):
            log.info("stopping: the session is kept for %.1f s", store.session_timeout_s)
            # Closed before it is saved: no request has a later number then (docs: zookeeper-xids).
            await store.close(end_session=False)
            environment.keep_session(self._base.settings, store.saved_session)
            return
        log.info("stopping: handing bundles over")
        # Without a session nothing is owned, so the stages have nothing to do.
        if store.is_connected and self._end.code not in _NOTHING_LEFT:
            # Read now, because the setting may change at run time.
            now = self._services.configuration.current().session
            await self._hand_over(now.shutdown_timeout_s)
        left = len(self._services.ownership.owned())
        if left:
            # Bundles that may still be served must not become free at once.
            log.warning("%d bundles were not released: the session is left to expire", left)
        await store.close(end_session=not left)

    async def _hand_over(self, drain_s: float) -> None:
        coordination, ownership = self._coordination, self._services.ownership
        registry, clock = coordination.registry, self._base.clock
        end_s = clock.now_s() + drain_s
        await self._stage("announcing the drain", registry.announce_drain(), _STAGE_S)
        if self._partitions is not None:
            await self._stop_leading(self._partitions, drain_s / 2)
        await self._stage("resigning", coordination.election.resign(), _STAGE_S)
        left_s = max(0.0, end_s - clock.now_s())
        await self._stage("draining", ownership.drain(left_s), left_s + _STAGE_S)
        await self._stage("unregistering", registry.unregister(), _STAGE_S)
        await self._stage("deleting what is left", self._base.deletions.drain(), _STAGE_S)

    async def _stop_leading(self, partitions: PartitionParts, limit_s: float) -> None:
        """Resign as controller and release leaderships; this broker may itself be the controller.

        The next controller learns from the registration, which is deleted last, that this one is
        gone.
        """
        if partitions.shutdown is not None:
            await self._stage("controlled shutdown", partitions.shutdown.run(), limit_s)
        await self._stage("resigning as controller", partitions.election.resign(), _STAGE_S)
        await self._stage("leaving the replicas", partitions.replicas.leave(), _STAGE_S)

    @staticmethod
    async def _stage(what: str, work: Awaitable[object], limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await work
        except TimeoutError:
            log.warning("stopping: %s took longer than %.0f s; going on", what, limit_s)
        except BrokerCtlError as error:
            log.warning("stopping: %s failed: %s; going on", what, error)

    async def _take_down(self) -> None:
        """Clean up after serving has ended for any reason."""
        base, coordination, services = self._base, self._coordination, self._services
        self._assembly.status.now = Readiness(is_ready=False, reason="stopped")
        self._assembly.balancer.close()
        await base.watcher.close()
        await coordination.registry.close()
        if coordination.others is not None:
            await coordination.others.close()
        if coordination.migration is not None:
            await coordination.migration.close()
        await coordination.moves.close()
        await coordination.directives.close()
        await coordination.locks.close()
        await base.deletions.close()
        await services.constraints.close()
        await services.configuration.close()
        await services.partitioned_topics.close()
        await services.namespaces.close()
        await services.home.close()
        await services.grants.close()
        await services.owners.close()
        await services.partition_leaders.close()
        if self._partitions is not None:
            await self._partitions.replicas.throttle.close()
            await self._partitions.plane.stop()
        await services.dataplane.stop()
        # Queued requests fail, and the store below is closed with them.
        await base.metadata.close(end_session=False)
        if base.configuration is not base.metadata:
            await base.configuration.close()
        await self._base.environment.reloader.close()
        await self._assembly.api.stop(_API_S)
        # Last, because the API may use the parts until here.
        await self._assembly.lookup.close()
        await self._assembly.peers_http.close()
        await self._assembly.clients_http.close()
        await self._base.audit.close()
        await close_tracer(self._base.tracer)
        if services.history is not None:
            await services.history.close()
