"""Starts each daemon again that ends, as systemd would."""

from pathlib import Path
from types import TracebackType
from typing import Self

from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.tasks import TaskScope


class Supervisor:
    """Runs as long as the block.

    Attributes:
        directory: has a file with the process id of each daemon, by its port.
    """

    def __init__(self, daemons: Daemons, directory: Path) -> None:
        self.directory = directory
        self._daemons = daemons
        self._tasks = TaskScope("supervisors")

    async def __aenter__(self) -> Self:
        for daemon in self._daemons.all:
            self._tasks.start(self._supervise(daemon), daemon.broker_id)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._tasks.close()

    async def _supervise(self, daemon: DaemonProcess) -> None:
        while True:
            path = self.directory / daemon.broker_id.rpartition(":")[2]
            path.write_text(str(daemon.pid), encoding="utf-8")
            await daemon.wait()
            await daemon.start()
