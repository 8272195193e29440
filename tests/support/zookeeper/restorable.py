"""ZooKeeper servers whose data a test copies and puts back."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker_ctl.lab.embedded.ensemble import Ensemble


class Servers:
    """One server or three."""

    def __init__(self, ensemble: Ensemble, directory: Path) -> None:
        self.ensemble = ensemble
        self._directory = directory

    @property
    def _data(self) -> list[Path]:
        return sorted(self._directory.rglob("version-2"))

    async def stop(self) -> None:
        async with asyncio.TaskGroup() as group:
            for server in self.ensemble.servers:
                group.create_task(server.stop(), name="stop")

    async def start(self) -> None:
        for server in self.ensemble.servers:
            await server.start()
        for server in self.ensemble.servers:
            await server.wait_serving()

    def copy(self) -> None:
        for data in self._data:
            shutil.copytree(data, data.parent.with_name("copy"))

    def restore(self, epoch: int | None = None) -> None:
        """Put the copy back; with ``epoch`` as the how-to says."""
        for data in self._data:
            shutil.rmtree(data)
            shutil.copytree(data.parent.with_name("copy"), data)
            if epoch is not None:
                for name in ("acceptedEpoch", "currentEpoch"):
                    (data / name).write_text(f"{epoch}\n")


@asynccontextmanager
async def restorable(directory: Path, servers: int) -> AsyncIterator[Servers]:
    async with Ensemble.of(directory / "zk", servers=servers, heap_mb=128) as ensemble:
        yield Servers(ensemble, directory / "zk")
