"""The same cluster restarts three times: without a drain, with one, and by a rollout."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import Any, Final

from broker_ctl.cli.rollout.driver import Driver
from broker_ctl.cli.runtime.target import Output, Target
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.dataplane.bundles.serve_log import merge_logs, read_events
from broker_ctl.embedded.config import TICK_MS
from broker_ctl.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.embedded.ensemble import Ensemble
from broker_ctl.http_client import HttpClient
from broker_ctl.tasks import TaskScope
from tests.benchmarks.progress import report_progress
from tests.benchmarks.rollouts.gaps import figures
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace, overview
from tests.support.time.waiting import eventually

_SETTINGS: Final = {
    # Other work on the same machine must not cost a session.
    "metadataStoreSessionTimeoutMillis": "15000",
    "zookeeperTickTimeMillis": str(TICK_MS),
    "dataPlane": "simulated",
    "simulatedWorkload": "steady",
    "hostUsageSource": "dataplane",
    "statsUpdateFrequencyInSecs": "1",
    "loadBalancerReportUpdateMinIntervalMillis": "500",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "brokerShutdownTimeoutMs": "20000",
}
_TOPICS: Final = 240
_AT_ONCE: Final = 16
# Together they look each topic up about once a second.
_CLIENTS: Final = 12
_PAUSE_S: Final = 0.05
# In which a fresh broker acquires nothing, and reports arrive.
_REST_S: Final = 3.0
_PATIENCE_S: Final = 60.0


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

        await eventually(is_empty, _PATIENCE_S)
        await scene.restart(daemon)
        await scene.request("DELETE", path)
    return {}


async def by_rollout(scene: Scene) -> dict[str, Any]:
    await scene.request("PUT", "rollout", {})
    target = Target(scene.daemons.all[0].url, None, Output.JSON)
    row = await Driver(target, Restart(scene), lambda _: None).run()
    assert row["state"] == "done", row
    return {"least_moves": row["least_moves"], "moves_counted": row["moves"]}


WAYS: Final[dict[str, Callable[[Scene], Awaitable[dict[str, Any]]]]] = {
    "sigterm": by_sigterm,
    "drains": by_drains,
    "rollout": by_rollout,
}


async def run(brokers: int, bundles: int) -> dict[str, Any]:
    """All ways, one after the other, and what topics noticed of them."""
    found: dict[str, Any] = {"brokers": brokers, "bundles": bundles}
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollout-")))
        ensemble = await stack.enter_async_context(Ensemble.of(directory / "zookeeper", 1))
        http = await stack.enter_async_context(HttpClient(timeout_s=20.0, max_body_bytes=8 << 20))
        settings = {**_SETTINGS, "metadataStoreUrl": f"zk:{ensemble.connect_string}/"}
        daemons = await stack.enter_async_context(Daemons(directory, brokers, settings))
        await daemons.wait_ready(http)
        scene = Scene(http, daemons)
        await make_namespace(http, daemons.all[0], bundles)
        for name, way in WAYS.items():
            await _place_all(scene)
            begin_ns = clock_gettime_ns(CLOCK_BOOTTIME)
            async with TaskScope("clients") as clients:
                for number in range(_CLIENTS):
                    clients.start(_look_up_for_ever(scene, number), f"client {number}")
                more = await way(scene)
                await _place_all(scene)
                end_ns = clock_gettime_ns(CLOCK_BOOTTIME)
            logs = [read_events(daemon.files.serve_log) for daemon in daemons.all]
            seen = figures(merge_logs(logs), begin_ns, end_ns)
            found[name] = {**seen, **more, "took_s": round((end_ns - begin_ns) / 1e9, 1)}
            report_progress(f"{name}: {found[name]}")
            await eventually(partial(_is_whole, scene), _PATIENCE_S)
    return found


async def _place_all(scene: Scene) -> None:
    limit, first = asyncio.Semaphore(_AT_ONCE), scene.daemons.all[0]

    async def place(number: int) -> None:
        async with limit:
            await eventually(partial(look_up, scene.http, first, _topic(number)), _PATIENCE_S)

    async with asyncio.TaskGroup() as group:
        for number in range(_TOPICS):
            group.create_task(place(number))
    await asyncio.sleep(_REST_S)


async def _look_up_for_ever(scene: Scene, first: int) -> None:
    """A client that looks its topics up again and again, at one broker after the other."""
    while True:
        for number in range(first, _TOPICS, _CLIENTS):
            daemon = scene.daemons.all[number % len(scene.daemons.all)]
            await look_up(scene.http, daemon, _topic(number))
            await asyncio.sleep(_PAUSE_S)


def _topic(number: int) -> Topic:
    return Topic("persistent", Namespace("public", "default"), f"topic-{number:03}")


async def _is_whole(scene: Scene) -> bool:
    """Whether the leader sees every broker."""
    seen = await overview(scene.http, scene.daemons.all[0])
    return len(seen.get("brokers", ())) == len(scene.daemons.all)
