"""One kill in each of many rollouts of one cluster, and what is left of them."""

import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import Daemons
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import TICK_MS
from tests.benchmarks.lines.progress import report_progress
from tests.chaos.rollouts.supervisor import Supervisor
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.time.waiting import eventually

VICTIMS: Final = ("driver", "leader", "broker", "server")
_BROKERS: Final = 3
_SERVERS: Final = 3
_BUNDLES: Final = 12
_TOPICS: Final = [
    Topic("persistent", Namespace("public", "default"), f"t-{number}") for number in range(24)
]
_SETTINGS: Final = {
    "metadataStoreSessionTimeoutMillis": "8000",
    "zookeeperTickTimeMillis": str(TICK_MS),
    "dataPlane": "simulated",
    "simulatedWorkload": "steady",
    "hostUsageSource": "dataplane",
    "statsUpdateFrequencyInSecs": "1",
    "loadBalancerReportUpdateMinIntervalMillis": "500",
}
# About what a rollout of this cluster takes: the points lie in it.
_LONGEST_POINT_S: Final = 30.0
_AWAY_S: Final = 3.0
_PATIENCE_S: Final = 300.0
_OVER: Final = frozenset({"done", "aborted"})
_GATE_S: Final = "60"


@dataclass(frozen=True, slots=True)
class Kill:
    """One rollout.

    Attributes:
        at_s: seconds from its begin to the kill.
        state: of the rollout then.
        is_aborted: whether an operator aborted it after the kill.
        ended: its last state.
        wrong: what was not as before; empty: nothing.
    """

    number: int
    whom: str
    at_s: float
    state: str
    is_aborted: bool
    ended: str
    took_s: float
    wrong: tuple[str, ...]


class Scene:
    """The cluster, its supervisor, and one driver at a time."""

    def __init__(
        self, http: HttpClient, daemons: Daemons, ensemble: Ensemble, supervisor: Supervisor
    ) -> None:
        self._http = http
        self._daemons = daemons
        self._ensemble = ensemble
        self._supervisor = supervisor
        self._driver: asyncio.subprocess.Process | None = None

    async def ask(self, method: str, path: str, json: Any = None) -> Any:
        """The answer of the leader, as soon as there is one."""

        # An answer may be empty, which does not mean to ask again.
        async def ask() -> tuple[Any] | None:
            for daemon in self._daemons.all:
                url = f"{daemon.url}/control/v1/{path}"
                try:
                    reply = await self._http.request(method, url, json=json)
                except HttpError:
                    continue
                if reply.status in {200, 404, 409}:
                    return (reply.json(),)
            return None

        what = f"{method} {path}"
        (answer,) = await eventually(ask, _PATIENCE_S, what, poll_s=0.5)
        return answer

    async def rollout(self) -> Mapping[str, Any]:
        """The rollout in progress, or the last one."""
        row: Mapping[str, Any] = await self.ask("GET", "rollout")
        return row

    async def drive(self, verb: str, *options: str) -> None:
        """Begin or resume a rollout, with a driver that lives on."""
        await self.kill_driver()
        command = f"{sys.executable} -m tests.chaos.rollouts.stop {self._supervisor.directory}"
        self._driver = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "broker_ctl", "rollout", verb, "--yes"),
            *("--url", self._running_url, "--restart-command", f"{command} {{port}}", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def kill_driver(self) -> None:
        """As SIGKILL does."""
        driver, self._driver = self._driver, None
        if driver is not None:
            if driver.returncode is None:
                driver.kill()
            await driver.wait()

    @property
    def is_driven(self) -> bool:
        return self._driver is not None and self._driver.returncode is None

    @property
    def _running_url(self) -> str:
        return next(daemon.url for daemon in self._daemons.all if daemon.is_running)

    async def kill(self, whom: str, rng: random.Random) -> None:
        """Kill one of `VICTIMS`."""
        match whom:
            case "driver":
                await self.kill_driver()
            case "leader":
                found = await eventually(
                    lambda: leader_of(self._http, self._daemons.all), _PATIENCE_S
                )
                found[0].signal(signal.SIGKILL)
            case "broker":
                rows = (await self.rollout()).get("brokers", ())
                busy = [row["broker"] for row in rows if row["state"] not in {"waiting", "done"}]
                names = busy or [daemon.broker_id for daemon in self._daemons.all]
                name = rng.choice(names)
                next(d for d in self._daemons.all if d.broker_id == name).signal(signal.SIGKILL)
            case _:
                server = rng.choice(self._ensemble.servers)
                await server.kill()
                await asyncio.sleep(_AWAY_S)
                await server.start()

    async def end(self, *, is_aborted: bool) -> str:
        """Bring the rollout to its end: its driver may be gone; returns its state."""
        if is_aborted:
            await self.ask("POST", "rollout/abort", {})
        ends_s = asyncio.get_running_loop().time() + _PATIENCE_S
        while (row := await self.rollout()).get("state") not in _OVER:
            if asyncio.get_running_loop().time() > ends_s:
                break
            if not self.is_driven and row.get("state") is not None:
                await self.drive("resume")
            await asyncio.sleep(1.0)
        await self.kill_driver()
        return str((await self.rollout()).get("state"))

    async def wrong(self) -> tuple[str, ...]:
        """What is not as before the rollout, after a while in which it may become so."""
        found: list[str] = []

        async def is_whole() -> bool:
            pause, drains = await self.ask("GET", "pause"), await self.ask("GET", "drains")
            found[:] = []
            if pause.get("paused"):
                found.append(f"paused by {pause.get('by')}")
            found.extend(f"{row['broker']} is drained" for row in drains)
            first = self._daemons.all[0]
            found.extend(
                [
                    f"{topic.local} is not served"
                    for topic in _TOPICS
                    if not await look_up(self._http, first, topic)
                ]
            )
            return not found

        try:
            await eventually(is_whole, 60.0, poll_s=1.0)
        except AssertionError:
            return tuple(found)
        return ()


async def run(kills: int, seed: int, victims: Sequence[str]) -> list[Kill]:
    """Rollouts one after the other, each with a kill."""
    rng = random.Random(seed)
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-")))
        ensemble = await stack.enter_async_context(Ensemble.of(directory / "zk", _SERVERS))
        http = await stack.enter_async_context(HttpClient(timeout_s=10.0, max_body_bytes=8 << 20))
        settings = {**_SETTINGS, "metadataStoreUrl": f"zk:{ensemble.connect_string}/"}
        daemons = await stack.enter_async_context(Daemons(directory, _BROKERS, settings))
        await daemons.wait_ready(http)
        await make_namespace(http, daemons.all[0], bundles=_BUNDLES)
        for topic in _TOPICS:
            await eventually(partial(look_up, http, daemons.all[0], topic), what=str(topic))
        report_progress("the cluster is ready")
        supervisor = await stack.enter_async_context(Supervisor(daemons, directory))
        scene = Scene(http, daemons, ensemble, supervisor)
        stack.push_async_callback(scene.kill_driver)
        found = []
        for number in range(kills):
            kill = await _kill(scene, number, victims[number % len(victims)], rng)
            report_progress(str(kill))
            found.append(kill)
        return found


async def _kill(scene: Scene, number: int, whom: str, rng: random.Random) -> Kill:
    loop = asyncio.get_running_loop()
    before = (await scene.rollout()).get("id")
    point_s, is_aborted = rng.uniform(0.0, _LONGEST_POINT_S), rng.random() < 1 / 3
    await scene.drive("run", "--accept-overload", "--gate-timeout", _GATE_S)

    async def has_begun() -> bool:
        # A broker that has just started may not have reported yet; then it is refused.
        if not scene.is_driven:
            await scene.drive("run", "--accept-overload", "--gate-timeout", _GATE_S)
        return (await scene.rollout()).get("id") not in {None, before}

    await eventually(has_begun, _PATIENCE_S, "the rollout begins", poll_s=0.2)
    began_s = loop.time()
    await asyncio.sleep(point_s)
    state = _sketch(await scene.rollout())
    report_progress(f"{whom} is killed after {point_s:.1f} s: {state}")
    await scene.kill(whom, rng)
    ended = await scene.end(is_aborted=is_aborted)
    took_s = round(loop.time() - began_s, 1)
    wrong = await scene.wrong()
    if ended not in _OVER:
        wrong = (*wrong, f"the rollout is {ended}")
    return Kill(number, whom, round(point_s, 1), state, is_aborted, ended, took_s, wrong)


def _sketch(row: Mapping[str, Any]) -> str:
    brokers = ", ".join(broker["state"] for broker in row["brokers"])
    return f"{row['state']}: {brokers}"
