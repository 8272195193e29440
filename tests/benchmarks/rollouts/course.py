"""The same cluster restarts: without a drain, with one, and by a rollout."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker_ctl.cli.rollout_driver import Driver
from broker_ctl.cli.runtime.output import Output
from broker_ctl.cli.runtime.target import Target
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import TICK_MS
from broker_ctl.simulation.traces.trace import COLUMNS
from broker_ctl.tasks import TaskScope
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.rollouts.publishers import PRELUDE_S, Publishers, one_of_each
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace, overview
from tests.support.time.waiting import eventually

_SETTINGS: Final = {
    # Other work on the same machine must not cost a session.
    "metadataStoreSessionTimeoutMillis": "15000",
    "zookeeperTickTimeMillis": str(TICK_MS),
    "dataPlane": "simulated",
    "hostUsageSource": "dataplane",
    "statsUpdateFrequencyInSecs": "1",
    "loadBalancerReportUpdateMinIntervalMillis": "500",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "brokerShutdownTimeoutMs": "20000",
}
# Of all topics together, and the size of a message.
_MESSAGES_PER_S: Final = 1_000
_MESSAGE_BYTES: Final = 1_024
_AT_ONCE: Final = 16
# In which a fresh broker acquires nothing, and reports arrive.
_REST_S: Final = 3.0
_PATIENCE_S: Final = 60.0
# A drain has no plan, and a pace of its own.
_DRAIN_S: Final = 300.0
_IDLE: Final = frozenset({"waiting", "done"})


@dataclass(frozen=True, slots=True)
class Scene:
    """Running daemons."""

    http: HttpClient
    daemons: Daemons

    async def in_order(self) -> list[DaemonProcess]:
        """The daemons, the leader last."""
        found = await eventually(lambda: leader_of(self.http, self.daemons.all), _PATIENCE_S)
        return sorted(self.daemons.all, key=lambda daemon: daemon is found[0])

    async def restart(self, daemon: DaemonProcess) -> None:
        await daemon.stop()
        await daemon.start()
        await daemon.wait_ready(self.http)
        await asyncio.sleep(_REST_S)

    async def request(self, method: str, path: str, json: Any = None) -> Any:
        """The answer of the leader, as soon as there is one."""

        async def ask() -> Any:
            url = f"{(await self.in_order())[-1].url}/control/v1/{path}"
            reply = await self.http.request(method, url, json=json)
            return reply.json() if reply.status == 200 else None

        return await eventually(ask, _PATIENCE_S, what=f"{method} {path}")


@dataclass(frozen=True, slots=True)
class Restart:
    """The hook of a driver."""

    scene: Scene

    async def restart(self, broker_id: str) -> None:
        (daemon,) = (each for each in self.scene.daemons.all if each.broker_id == broker_id)
        await daemon.stop()
        await daemon.start()


async def by_sigterm(scene: Scene) -> dict[str, Any]:
    for daemon in await scene.in_order():
        await scene.restart(daemon)
    return {}


async def by_drains(scene: Scene) -> dict[str, Any]:
    for daemon in await scene.in_order():
        path = f"drains/{daemon.broker_id}"
        await scene.request("PUT", path, {})

        async def is_empty(broker_id: str = daemon.broker_id) -> bool:
            rows = await scene.request("GET", "drains")
            return any(row["broker"] == broker_id and row["state"] == "drained" for row in rows)

        await eventually(is_empty, _DRAIN_S)
        await scene.restart(daemon)
        await scene.request("DELETE", path)
    return {}


@dataclass(slots=True)
class _Shown:
    """What a rollout waits for, each thing once."""

    last: str = ""

    def show(self, row: Mapping[str, Any]) -> None:
        busy = [one for one in row["brokers"] if one["state"] not in _IDLE]
        said = (f"{one['broker']} {one['state']} {one['detail']}" for one in busy)
        now = f"{row['state']}, {row['moves']} moves: {'; '.join(said)}"
        if now != self.last:
            self.last = now
            report_progress(now)


async def by_rollout(scene: Scene) -> dict[str, Any]:
    await scene.request("PUT", "rollout", {})
    target = Target(scene.daemons.all[0].url, None, Output.JSON)
    row = await Driver(target, Restart(scene), _Shown().show).run()
    assert row["state"] == "done", row
    return {"least_moves": row["least_moves"], "moves_counted": row["moves"]}


WAYS: Final[dict[str, Callable[[Scene], Awaitable[dict[str, Any]]]]] = {
    "sigterm": by_sigterm,
    "drains": by_drains,
    "rollout": by_rollout,
}


@dataclass(frozen=True, slots=True)
class Size:
    """How large the cluster is."""

    brokers: int
    bundles: int
    topics: int


async def run(size: Size, ways: Sequence[str], limit_s: float | None = None) -> dict[str, Any]:
    """Some ways, one after the other, and what clients noticed of them.

    Args:
        size: of the cluster.
        ways: of `WAYS`.
        limit_s: seconds after which a way is cut short; None: never.
    """
    found: dict[str, Any] = {**asdict(size), "messages_per_s": _MESSAGES_PER_S}
    topics = one_of_each(_topic, size.topics, size.bundles)
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollout-")))
        ensemble = await stack.enter_async_context(Ensemble.of(directory / "zookeeper", 1))
        http = await stack.enter_async_context(HttpClient(timeout_s=20.0, max_body_bytes=8 << 20))
        settings = {
            **_SETTINGS,
            "metadataStoreUrl": f"zk:{ensemble.connect_string}/",
            "simulatedWorkload": str(_write_workload(directory / "workload.csv", size.topics)),
        }
        daemons = await stack.enter_async_context(Daemons(directory, size.brokers, settings))
        await daemons.wait_ready(http)
        report_progress(f"{size.brokers} daemons are ready")
        scene = Scene(http, daemons)
        await make_namespace(http, daemons.all[0], size.bundles)
        for name in ways:
            await _place_all(scene, topics.values())
            report_progress(f"{name}: {len(topics)} bundles are placed")
            publishers = Publishers(http, daemons.all, topics, size.bundles)
            async with TaskScope("publishers") as scope:
                scope.start(publishers.run(), "publishers")
                await asyncio.sleep(2 * PRELUDE_S)
                more = await _within(limit_s, WAYS[name](scene))
                await asyncio.sleep(_REST_S)
                found[name] = {**publishers.figures(), **more}
            report_progress(f"{name}: {found[name]}")
            if not found[name]["is_whole"]:
                break
            await eventually(partial(_is_whole, scene), _PATIENCE_S)
    return found


async def _within(limit_s: float | None, way: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        async with asyncio.timeout(limit_s):
            return {"is_whole": True, **await way}
    except TimeoutError:
        return {"is_whole": False}


def _write_workload(path: Path, topics: int) -> Path:
    rate = _MESSAGES_PER_S / topics
    line = f"{rate},{rate},{rate * _MESSAGE_BYTES},{rate * _MESSAGE_BYTES}"
    rows = (f"0,{_topic(number)},{line}" for number in range(topics))
    path.write_text("\n".join((",".join(COLUMNS), *rows, "")), encoding="utf-8")
    return path


async def _place_all(scene: Scene, topics: Collection[Topic]) -> None:
    limit, first = asyncio.Semaphore(_AT_ONCE), scene.daemons.all[0]

    async def place(topic: Topic) -> None:
        async with limit:
            await eventually(partial(look_up, scene.http, first, topic), _PATIENCE_S)

    async with asyncio.TaskGroup() as group:
        for topic in topics:
            group.create_task(place(topic))
    await asyncio.sleep(_REST_S)


def _topic(number: int) -> Topic:
    return Topic("persistent", Namespace("public", "default"), f"topic-{number:05}")


async def _is_whole(scene: Scene) -> bool:
    """Whether the leader sees every broker."""
    seen = await overview(scene.http, scene.daemons.all[0])
    return len(seen.get("brokers", ())) == len(scene.daemons.all)
