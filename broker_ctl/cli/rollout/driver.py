"""The driver of a rollout: it restarts the brokers that the leader has emptied.

The leader's node says which broker waits for a restart, so a driver may be killed at any time and
another one continues. The brokers restart one after the other, the one at ``--url`` and the leader
too: the driver asks whichever of them answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from broker_ctl.cli.rollout.hooks import RestartHook
from broker_ctl.cli.rollout.scope import PATH
from broker_ctl.cli.runtime.target import Target
from broker_ctl.errors import HttpError, RestartFailed
from broker_ctl.tasks import TaskScope

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

_T = TypeVar("_T")

_PERIOD_S: Final = 0.5
# For an election, and for the broker at which the driver had asked to come back.
_PATIENCE_S: Final = 120.0
_READY_TIMEOUT_S: Final = 3.0
# While a restart takes long, the driver shows the leader that it is still there: at the latest
# after this part of the gate timeout, since the leader stops the rollout after all of it.
_ALIVE_S: Final = 10.0
_ALIVE_RATIO: Final = 0.25
_OK: Final = 200
# States in which the driver has nothing more to do.
OVER: Final = frozenset({"done", "aborted", "stopped"})


class Driver:
    """Restarts brokers until the rollout has ended or stopped."""

    def __init__(
        self, target: Target, hook: RestartHook, show: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._target = target
        self._hook = hook
        self._show = show
        # Where a daemon may answer, the last one that did first.
        self._urls = [target.url]
        self._in_hand: set[str] = set()

    async def run(self) -> Mapping[str, Any]:
        """The rollout once it has ended, or has stopped.

        Raises:
            HttpError: no broker answers for two minutes.
        """
        async with asyncio.TaskGroup() as restarts:
            while True:
                row = await self.status()
                self._show(row)
                if row["state"] in OVER and not self._in_hand:
                    return row
                for broker in row["brokers"]:
                    name = broker["broker"]
                    if self._waits_for_driver(broker) and name not in self._in_hand:
                        self._in_hand.add(name)
                        work = self._take(broker, row["gate_timeout_s"])
                        restarts.create_task(work, name=f"restart {name}")
                await asyncio.sleep(_PERIOD_S)

    async def status(self) -> dict[str, Any]:
        """The rollout, from any broker that answers.

        Raises:
            HttpError: none answers for two minutes.
        """

        async def ask(client: "Client") -> dict[str, Any]:
            found: dict[str, Any] = await client.get(PATH)
            return found

        row = await self._ask(ask)
        for broker in row["brokers"]:
            url = broker["url"]
            if url and url not in self._urls and _is_trusted(self._target, url):
                self._urls.append(url)
        return row

    @staticmethod
    def _waits_for_driver(broker: Mapping[str, Any]) -> bool:
        state = broker["state"]
        return state in {"empty", "restarting"} or (state == "checking" and not broker["healthy"])

    async def _take(self, broker: Mapping[str, Any], gate_timeout_s: float) -> None:
        name = broker["broker"]
        try:
            if broker["state"] != "checking":
                if not await self._say(name, "restart_began", {"empty", "restarting"}):
                    return
                try:
                    await self._restart(name, min(_ALIVE_S, _ALIVE_RATIO * gate_timeout_s))
                except RestartFailed as error:
                    await self._say(name, "failed", {"restarting", "checking"}, str(error))
                    return
                await self._say(name, "restarted", {"restarting"})
            await self._wait_ready(name)
        finally:
            self._in_hand.discard(name)

    async def _restart(self, name: str, alive_s: float) -> None:
        """Run the hook, and repeat meanwhile that the restart has begun.

        Raises:
            RestartFailed: the message says why.
        """
        async with TaskScope(f"restart {name}") as tasks:
            tasks.start(self._say_alive(name, alive_s), "say alive")
            await self._hook.restart(name)

    async def _say_alive(self, name: str, alive_s: float) -> None:
        while True:
            await asyncio.sleep(alive_s)
            # The hook goes on regardless: perhaps it restarts the leader.
            with suppress(HttpError):
                await self._say(name, "restart_began", {"restarting"})

    async def _wait_ready(self, name: str) -> None:
        """Say that a broker is healthy once it is, as seen from here; its gate has a deadline."""
        while True:
            broker = _broker(await self.status(), name)
            if broker["state"] != "checking" or broker["healthy"]:
                return
            if broker["url"] and await self._is_ready(broker["url"]):
                await self._say(name, "healthy", {"checking"})
                return
            await asyncio.sleep(_PERIOD_S)

    async def _is_ready(self, url: str) -> bool:
        from broker_ctl.http_client import HttpClient

        client = HttpClient(
            token=None, timeout_s=_READY_TIMEOUT_S, max_body_bytes=65536, ssl=self._target.tls
        )
        try:
            reply = await client.request("GET", f"{url}/readyz", timeout_s=_READY_TIMEOUT_S)
        except HttpError:
            return False
        finally:
            await client.close()
        return reply.status == _OK

    async def _say(self, name: str, event: str, states: set[str], detail: str = "") -> bool:
        """Report to the leader; whether it still was to be said, by the state of the broker.

        A lost answer is resolved by reading.
        """
        path = f"{PATH}/brokers/{quote(name, safe=':')}"
        refused: HttpError | None = None
        for _ in range(3):
            broker = _broker(await self.status(), name)
            if broker["state"] not in states:
                return False

            async def put(client: "Client") -> Any:
                body = {"event": event, "detail": detail}
                return await client.request("PUT", path, json=body)

            try:
                await self._ask(put, patience_s=10.0)
            except HttpError as error:
                refused = error
                continue
            return True
        assert refused is not None
        raise refused

    async def _ask(
        self, ask: "Callable[[Client], Awaitable[_T]]", patience_s: float = _PATIENCE_S
    ) -> _T:
        """The answer of the first broker that gives one."""
        from broker_ctl.cli.runtime.client import Client

        loop = asyncio.get_running_loop()
        ends_s = loop.time() + patience_s
        while True:
            for url in list(self._urls):
                target = replace(self._target, url=url)
                trust = target.trust()
                try:
                    async with Client(url, target.token, target.tls, 10.0, trust) as client:
                        answer = await ask(client)
                except HttpError as error:
                    failed = error
                    continue
                self._urls.remove(url)
                self._urls.insert(0, url)
                return answer
            if loop.time() > ends_s:
                raise failed
            await asyncio.sleep(_PERIOD_S)


def _broker(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for broker in row["brokers"]:
        if broker["broker"] == name:
            found: Mapping[str, Any] = broker
            return found
    raise HttpError(f"{name} is not part of the rollout any more")


def _is_trusted(target: Target, url: str) -> bool:
    """Whether the token may be sent to a broker that the leader names; see `Client`."""
    from broker_ctl.core.model.web_address import WebAddress

    if target.token is None or urlsplit(url).hostname == urlsplit(target.url).hostname:
        return True
    try:
        return target.trust().allows(WebAddress.parse(url))
    except ValueError:
        return False
