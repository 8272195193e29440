"""Our side: the same acts on as many daemons, below another chroot of the same servers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from broker_ctl.store import paths
from tests.benchmarks.failover.brokers import (
    measure_death,
    measure_shutdown,
    now_s,
    wait_acknowledged,
)
from tests.benchmarks.failover.controllers import measure_takeover
from tests.benchmarks.failover.scene import Scene
from tests.benchmarks.kafka import rows
from tests.benchmarks.kafka.sizes import Sizes
from tests.support.time.waiting import eventually

_LIMIT_S: Final = 300.0
_POLL_S: Final = 0.02
_MOVED: Final = "moved"
_LARGE: Final = "large"


@dataclass(slots=True)
class Ours:
    """Daemons, of which the last leads everything."""

    scene: Scene
    ports: Sequence[int]
    sizes: Sizes
    seconds: rows.Rows = field(default_factory=rows.Rows)

    async def leader_dies(self) -> rows.Window:
        """See `rows.System`."""
        await self.scene.leave_controller()
        await measure_death(self.scene, list(self.ports))
        return self.scene.window_s

    async def controller_dies(self) -> rows.Window:
        """See `rows.System`."""
        await measure_takeover(self.scene)
        return self.scene.window_s

    async def shutdown(self) -> rows.Window:
        """See `rows.System`."""
        await self.scene.leave_controller()
        await measure_shutdown(self.scene)
        return self.scene.window_s

    async def reassignment(self) -> rows.Window:
        """See `rows.System`."""
        first, second, last = sorted(self.scene.daemons.by_id)
        rows_of = range(self.sizes.moved)
        await self._create(_MOVED, {str(row): [first, second] for row in rows_of})
        targets = [
            {"topic": _MOVED, "partition": row, "replicas": [first, last]} for row in rows_of
        ]
        began_s = now_s()
        await self.scene.daemons.order("PUT", "/reassignments", {"partitions": targets})

        async def is_over() -> bool:
            return not await self.scene.daemons.order("GET", "/reassignments")

        await eventually(is_over, _LIMIT_S, "the reassignment is over", _POLL_S)
        ended_s = now_s()
        await self._delete(_MOVED)
        return began_s, ended_s

    async def creation(self) -> rows.Window:
        """See `rows.System`."""
        turns = self.sizes.large_lists(self.scene.daemons.by_id)
        replicas = {str(row): turns[row % len(turns)] for row in range(self.sizes.large)}
        return await self._create(_LARGE, replicas)

    async def deletion(self) -> rows.Window:
        """See `rows.System`."""
        return await self._delete(_LARGE)

    async def _create(self, topic: str, replicas: dict[str, Any]) -> rows.Window:
        """Until every broker has acknowledged its replicas."""
        began_s = now_s()
        await self.scene.daemons.order("PUT", f"/topics/{topic}", {"replicas": replicas})
        updates = sum(map(len, replicas.values()))
        return began_s, await wait_acknowledged(self.scene, began_s, updates)

    async def _delete(self, topic: str) -> rows.Window:
        """Until the node of the topic is gone."""
        began_s = now_s()
        await self.scene.daemons.order("DELETE", f"/topics/{topic}")

        async def is_gone() -> bool:
            return await self.scene.store.exists(paths.topic(topic)) is None

        await eventually(is_gone, _LIMIT_S, "the topic goes", _POLL_S)
        return began_s, now_s()
