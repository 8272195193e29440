"""From start to stop: what a daemon of a broker and one beside a cluster have in common.

The API runs outside of every session, so that /readyz can say why the daemon is not ready while a
session is rebuilt.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Protocol

from broker_ctl.broker.history import History
from broker_ctl.daemon.lifecycle.exits import OwnEnd
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.wiring.foundation import Foundation
from broker_ctl.daemon.wiring.security import authenticating
from broker_ctl.errors import HistoryBehind, SessionError, StoreClosed
from broker_ctl.tasks import first_of


class Api(Protocol):
    """The API server of a daemon."""

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            StartError: the address is in use, or not this machine's.
        """
        ...


class _Stopped(Exception):
    """The daemon received a stop signal, or decided to end."""


class DaemonFrame(ABC):
    """A daemon from start to stop.

    Args:
        history: None: the settings have none.
    """

    def __init__(
        self,
        base: Foundation,
        api: Api,
        history: History | None,
        notifier: Notifier,
        signals: StopSignals,
    ) -> None:
        self._base = base
        self._api = api
        self._history = history
        self._notifier = notifier
        self._signals = signals
        self._end = OwnEnd(base)
        # Cancelled after `_shut_down`.
        self._serving: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Run until stopped; returns the exit code.

        Raises:
            StartError: the daemon cannot start, or not with this cluster; says why.
        """
        base = self._base
        with base.faults.collecting():
            async with authenticating(base.settings, base.authentication):
                return await self._run()

    async def _run(self) -> int:
        self._end.watch()
        await self._api.start()
        if self._history is not None:
            await self._history.start()
        try:
            await self._base.audit.start()
            self._base.environment.reloader.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._notifier.keep_watchdog(), name="watchdog")
                self._serving = group.create_task(self._serve_until_end(), name="serve")
                await self._signals.wait_or(self._end.decided)
                self._end.is_stopping = True
                self._notifier.send("STOPPING=1")
                await self._shut_down()
                raise _Stopped
        except* _Stopped:
            pass
        finally:
            await self._take_down()
        return self._end.code

    async def _serve_until_end(self) -> None:
        try:
            await self._serve()
        except* HistoryBehind as behind:
            why = first_of(behind)
            assert isinstance(why, HistoryBehind)
            self._end.end_for(why)
        except* (StoreClosed, SessionError):
            # The end of a store, stopped or not, reaches all tasks that still wait for it.
            if not (self._end.is_stopping or self._end.decided.is_set()):
                raise

    @abstractmethod
    async def _serve(self) -> None:
        """Start the store, and do the daemon's work until the store ends."""

    @abstractmethod
    async def _shut_down(self) -> None:
        """Hand over what others may take, and close the store."""

    @abstractmethod
    async def _take_down(self) -> None:
        """Clean up after serving has ended for any reason."""
