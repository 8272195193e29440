"""What operators do to a whole cluster: rollouts with their driver, drains, approved plans."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from broker_ctl.balancer.admin.operations import BalancerOperations
from broker_ctl.balancer.admin.rollout import RolloutRequest
from broker_ctl.balancer.balancer import LoadBalancer
from broker_ctl.core.cluster.directives import DrainTerms
from broker_ctl.core.rollout.forecast import RolloutScope
from broker_ctl.core.rollout.rollout import RolloutTerms
from broker_ctl.store import paths
from broker_ctl.tasks import TaskScope
from tests.deterministic.clients.clients import Clients
from tests.deterministic.world.cluster import Cluster
from tests.deterministic.world.daemon_process import DaemonProcess

_WHO: Final = "operator"
_GATE_S: Final = 20
_POLL_S: Final = 0.5
_LONGEST_S: Final = 240.0
_STOP_S: Final = 40.0
_OVER: Final = frozenset({"done", "aborted"})
# In these it waits for an operator.
_WAITING: Final = frozenset({"stopped", "paused"})
_ACTS: Final = ("pause", "resume", "abort")

Act = Callable[[BalancerOperations], Awaitable[object]]


class Operators:
    """Each verb is one step; drivers are killed as anything else is."""

    def __init__(self, cluster: Cluster, clients: Clients) -> None:
        self._cluster = cluster
        self._clients = clients
        self._rng = cluster.draws
        self._tasks = TaskScope("operators")
        # What a restart command has begun goes on without its driver, as a service's restart does.
        self._restarts = TaskScope("restarts")
        self._driver: asyncio.Task[None] | None = None
        self._drains: set[str] = set()

    def verbs(self) -> dict[Callable[[], Coroutine[Any, Any, None]], float]:
        """Steps with their weights."""
        return {
            self.begin_rollout: 6,
            self.act_on_rollout: 3,
            self.drive: 6,
            self.kill_driver: 2,
            self.drain_any: 2,
            self.undrain_any: 2,
            self.approve_plan: 4,
        }

    # Rollouts.

    async def begin_rollout(self) -> None:
        """Of some brokers, or of all."""
        names = [daemon.broker_id for daemon in self._cluster.daemons]
        some = self._rng.sample(names, self._rng.randrange(1, len(names) + 1))
        terms = RolloutTerms(gate_timeout_s=_GATE_S, accepts_overload=True)
        request = RolloutRequest(RolloutScope(tuple(some)), terms, _WHO)
        await self._ask(f"rollout of {len(some)}", lambda leader: leader.rollout.begin(request))

    async def act_on_rollout(self) -> None:
        act = self._rng.choice(_ACTS)
        await self._ask(f"{act} rollout", lambda leader: leader.rollout.act(act, _WHO, ""))

    async def drive(self) -> None:
        """A driver comes, if there is none."""
        if self._driver is None or self._driver.done():
            self._driver = self._tasks.start(self._drive(), "driver of a rollout")

    async def kill_driver(self) -> None:
        if self._driver is not None:
            self._cluster.say("* the driver is killed")
            self._driver.cancel()

    async def _drive(self) -> None:
        """Restart what the leader has emptied, as `broker-ctl rollout run` does."""
        while (row := await self._current()) is None or row["state"] not in _OVER:
            for broker in () if row is None else row["brokers"]:
                if broker["state"] in {"empty", "restarting", "checking"}:
                    await self._step(broker)
            await asyncio.sleep(_POLL_S)

    async def _step(self, broker: Mapping[str, Any]) -> None:
        daemon = self._cluster.by_id[broker["broker"]]
        if broker["state"] == "checking":
            dependencies = daemon.dependencies
            if dependencies is not None and dependencies.readiness().is_ready:
                await self._report(daemon, "healthy")
        elif await self._report(daemon, "restart_began"):
            work = self._restart(daemon)
            await asyncio.shield(self._restarts.start(work, f"restart {daemon.broker_id}"))
            await self._report(daemon, "restarted")

    async def _restart(self, daemon: DaemonProcess) -> None:
        self._cluster.say(f"* the driver restarts {daemon.broker_id}")
        if daemon.is_running:
            daemon.stop()
            if not await self._cluster.until(lambda: not daemon.is_running, _STOP_S):
                daemon.kill()
                self._cluster.observer.known.pop(daemon.broker_id, None)
        if not daemon.is_running:
            daemon.start()

    async def _report(self, daemon: DaemonProcess, event: str) -> bool:
        name = daemon.broker_id

        async def report(leader: BalancerOperations) -> object:
            return await leader.rollout.note_restart(name, event, "")

        return await self._ask(f"{event} {name}", report)

    async def _current(self) -> Mapping[str, Any] | None:
        found: list[Mapping[str, Any]] = []

        async def current(leader: BalancerOperations) -> None:
            found.append(await leader.rollout.current())

        await self._ask("status of the rollout", current)
        for row in found:
            states = {each["broker"]: (each["state"], each["detail"]) for each in row["brokers"]}
            self._cluster.say(f"rollout {row['state']}, {row['note']}: {states}")
        return found[0] if found else None

    # Drains and plans.

    async def drain_any(self) -> None:
        name = self._rng.choice(self._cluster.daemons).broker_id
        self._drains.add(name)
        terms = DrainTerms(is_forced=True)
        await self._ask(f"drain {name}", lambda leader: leader.drain(name, _WHO, "", terms))

    async def undrain_any(self) -> None:
        if self._drains:
            await self._undrain(self._rng.choice(sorted(self._drains)))

    async def _undrain(self, name: str) -> None:
        ended: list[bool] = []

        async def undrain(leader: BalancerOperations) -> None:
            ended.append(await leader.undrain(name))

        await self._ask(f"undrain {name}", undrain)
        # A drain that was asked for may still be on its way, and come after this.
        if any(ended):
            self._drains.discard(name)

    async def approve_plan(self) -> None:
        async def approve(leader: BalancerOperations) -> None:
            plan = await leader.plan(is_verbose=False)
            await leader.approve(plan["id"], _WHO, "")

        await self._ask("approve", approve)

    # The end.

    async def finish(self, ask_for_all: Callable[[], Awaitable[None]]) -> None:
        """Bring the rollout to an end, and end the drains; clients ask for all topics meanwhile."""
        if self._rng.random() < 0.5:
            await self._ask("abort rollout", lambda leader: leader.rollout.act("abort", _WHO, ""))
        ends_s = self._cluster.turns.now_s + _LONGEST_S
        while wrong := await self._unfinished():
            if self._cluster.turns.now_s > ends_s:
                for said in wrong:
                    self._cluster.observer.complain(f"rollout: {said}", self._cluster.turns.now_s)
                break
            await self.drive()
            await ask_for_all()
            for name in sorted(self._drains):
                await self._undrain(name)
            await asyncio.sleep(_POLL_S)
        await self._tasks.close()
        await self._restarts.close()

    async def _unfinished(self) -> list[str]:
        """What is left of rollouts and drains."""
        tree, row = self._cluster.ensemble.tree, await self._current()
        wrong = [f"{name} is drained" for name in tree.children(paths.DRAINS)]
        if len(self._restarts):
            wrong.append("a broker restarts")
        if tree.find(paths.PAUSE) is not None:
            wrong.append("the balancing is paused")
        if row is not None and row["state"] in _WAITING:
            await self._ask("resume rollout", lambda leader: leader.rollout.act("resume", _WHO, ""))
        if tree.find(paths.ROLLOUT) is not None and (row is None or row["state"] not in _OVER):
            wrong.append(f"it is {'unknown' if row is None else row['state']}")
        return wrong

    async def _ask(self, what: str, act: Act) -> bool:
        """Ask the leader, or one that only thinks that it leads; whether it was done."""
        leading = [
            (daemon, admin)
            for daemon in self._cluster.running
            if daemon.dependencies is not None
            and (admin := daemon.dependencies.admin()) is not None
        ]
        if not leading:
            return False
        daemon, admin = self._rng.choice(leading)
        is_done = False

        async def ask() -> None:
            nonlocal is_done
            await daemon.call(_act(admin, act))
            is_done = True

        await self._clients.ask(f"{what} by {daemon.broker_id}", ask())
        return is_done


async def _act(admin: LoadBalancer, act: Act) -> None:
    await act(admin.operations)
