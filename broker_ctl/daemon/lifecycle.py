"""What runs, and how it ends (design section 3).

    store > session > ownership > registration > load report, election > (leading: controller)

The surface is outside all of it, so that /readyz can say why the daemon is not ready while a
session is rebuilt. A stop goes backwards, with a deadline for each stage.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

from broker_ctl.core.session import Action
from broker_ctl.daemon import exit_codes, session_file
from broker_ctl.daemon.assembly import Assembly
from broker_ctl.daemon.service import Notifier, StopSignals
from broker_ctl.errors import BrokerCtlError, DataPlaneUnreachable, StartError
from broker_ctl.settings.session import SessionExpiredPolicy, StopMode
from broker_ctl.surface.parts import Readiness

log = logging.getLogger(__name__)

_STAGE_S: Final = 5.0
_SURFACE_S: Final = 2.0


class _Stopped(Exception):
    """The daemon was asked to stop, or decided to."""


class Daemon:
    """One broker's control plane, from start to stop."""

    def __init__(self, assembly: Assembly, notifier: Notifier, signals: StopSignals) -> None:
        self._parts = assembly
        self._notifier = notifier
        self._signals = signals
        self._exit_code = exit_codes.STOPPED
        self._ended = asyncio.Event()
        self._is_stopping = False

    async def run(self) -> int:
        """Run until asked to stop; the exit code.

        Raises:
            StartError: it cannot start, and why.
        """
        parts = self._parts
        parts.watcher.listen(self._session_changed)
        await parts.surface.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._notifier.keep_watchdog(), name="watchdog")
                group.create_task(self._serve(), name="serve")
                await self._wait_stop()
                await self._shut_down()
                raise _Stopped
        except* _Stopped:
            pass
        finally:
            await self._take_down()
        return self._exit_code

    # Up.

    async def _serve(self) -> None:
        parts = self._parts
        parts.readiness.now = Readiness(is_ready=False, reason="no connection to ZooKeeper yet")
        await parts.store.start()
        if parts.configuration_store is not parts.store:
            await parts.configuration_store.start()
        await parts.store.wait_connected()
        await parts.configuration_store.wait_connected()
        # Watches before reads: whatever changes from here on is heard.
        for follower in (parts.namespaces, parts.owners, parts.registry, parts.moves, parts.locks):
            await follower.start()
        parts.deletions.start()
        await parts.watcher.run_epochs(self._session)
        if not self._is_stopping:
            self._exit_code = exit_codes.RETRIES_USED_UP
            log.error("the ZooKeeper session was given up: %s", parts.watcher.error or "closed")
            self._ended.set()

    async def _session(self, epoch: int) -> None:
        """One session: take again what was owned, register, and work until it ends."""
        parts, readiness = self._parts, self._parts.readiness
        readiness.now = Readiness(
            is_ready=False, reason="waiting for the first committed heartbeat"
        )
        await parts.watcher.wait_authority()
        await self._refuse_mixed_cluster()
        try:
            async with parts.ownership.session(epoch):
                while True:
                    readiness.now = Readiness(
                        is_ready=False, reason="the data plane does not answer"
                    )
                    await parts.dataplane_watch.wait_answering()
                    await self._work()
        finally:
            parts.registry.ended()
            readiness.now = Readiness(is_ready=False, reason=f"session {epoch} has ended")

    async def _work(self) -> None:
        """Registered and at work, until the data plane falls silent."""
        parts = self._parts
        parts.readiness.now = Readiness(is_ready=False, reason="registering")
        await parts.registry.register(await parts.reporter.first())
        if parts.ownership.is_draining:
            await parts.registry.announce_drain()
        else:
            parts.readiness.now = Readiness(is_ready=True)
            self._notifier.send("READY=1", f"STATUS=serving as {parts.ownership.broker_id}")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(parts.reporter.run(), name="load report")
                group.create_task(parts.election.run(parts.controller.lead), name="election")
                group.create_task(parts.dataplane_watch.run(), name="data plane watch")
        except* DataPlaneUnreachable as silent:
            log.error("the data plane is silent, giving everything up: %s", silent.exceptions[0])
            parts.readiness.now = Readiness(is_ready=False, reason="the data plane is silent")
            await parts.registry.unregister()
            await parts.ownership.abandon()

    async def _refuse_mixed_cluster(self) -> None:
        parts = self._parts
        if parts.settings.broker.allow_mixed_cluster:
            return
        foreign = [
            broker_id
            for broker_id in await parts.registry.foreign_brokers()
            if broker_id != parts.ownership.broker_id
        ]
        if foreign:
            raise StartError(
                f"{', '.join(foreign)} in /loadbalance/brokers are no broker-ctl processes; what "
                "is promised does not hold beside them. allowMixedCluster=true joins all the same",
            )

    # Down.

    def _session_changed(self, action: Action) -> None:
        policy = self._parts.settings.session.expired_policy
        if action is Action.SESSION_LOST and policy is SessionExpiredPolicy.SHUTDOWN:
            log.error("the session is lost, and zookeeperSessionExpiredPolicy is shutdown")
            self._exit_code = exit_codes.SESSION_LOST
            self._ended.set()

    async def _wait_stop(self) -> None:
        """A signal, or the daemon's own decision."""
        async with asyncio.TaskGroup() as group:
            waits = [
                group.create_task(self._signals.wait(), name="signals"),
                group.create_task(self._ended.wait(), name="own end"),
            ]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for waiting in waits:
                waiting.cancel()

    async def _shut_down(self) -> None:
        parts, session = self._parts, self._parts.settings.session
        self._is_stopping = True
        self._notifier.send("STOPPING=1")
        parts.readiness.now = Readiness(is_ready=False, reason="draining")
        parts.ownership.is_draining = True
        is_keeping = session.stop_mode is StopMode.KEEP and session.session_directory is not None
        log.info("stopping: %s", "the session is kept" if is_keeping else "handing bundles over")
        left = len(parts.ownership.owned())
        if parts.store.is_connected and not is_keeping:
            await self._stage("announcing the drain", parts.registry.announce_drain(), _STAGE_S)
            await self._stage("resigning", parts.election.resign(), _STAGE_S)
            drained = parts.ownership.drain(session.shutdown_timeout_s)
            await self._stage("draining", drained, session.shutdown_timeout_s + _STAGE_S)
            left = len(parts.ownership.owned())
            await self._stage("unregistering", parts.registry.unregister(), _STAGE_S)
        if is_keeping and session.session_directory is not None:
            store = parts.store
            session_file.save(session.session_directory, store.session_id, store.session_password)
        # Only what is certainly served no more may be given away at once.
        if left and not is_keeping:
            log.warning("%d bundles were not given up: the session is left to expire", left)
        await parts.store.close(end_session=not left and not is_keeping)

    @staticmethod
    async def _stage(what: str, work: Awaitable[object], limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await work
        except TimeoutError:
            log.warning("%s took longer than %.0f s", what, limit_s)
        except BrokerCtlError as error:
            log.warning("%s: %s", what, error)

    async def _take_down(self) -> None:
        """After the serving has ended, whichever way."""
        parts = self._parts
        parts.readiness.now = Readiness(is_ready=False, reason="stopped")
        await parts.watcher.close()
        for follower in (parts.registry, parts.moves, parts.locks, parts.deletions):
            await follower.close()
        parts.namespaces.close()
        parts.owners.close()
        await parts.dataplane.stop()
        await parts.store.close(end_session=False)
        if parts.configuration_store is not parts.store:
            await parts.configuration_store.close()
        await parts.surface.stop(_SURFACE_S)
        await parts.peers_http.close()
