"""Real daemons that keep replicas, and what operators and clients ask of them."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.embedded.daemons import DaemonProcess
from tests.support.time.waiting import eventually

_ROOT: Final = "/control/v1/partitions"
_LATER: Final = 503
_PATIENCE_S: Final = 30.0


class ReplicatedDaemons:
    """Daemons with broker ids 1 and up, whose replicas outlive them. A scope: all are stopped.

    Attributes:
        by_id: the daemons by broker id.
    """

    def __init__(
        self, directory: Path, count: int, settings: Mapping[str, str], http: HttpClient
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._http = http
        self.by_id = {
            number: DaemonProcess(
                directory,
                number,
                {
                    **settings,
                    "brokerId": str(number),
                    "simulatedLogDirectory": str(directory / f"replicas-{number}"),
                },
            )
            for number in range(1, count + 1)
        }

    async def __aenter__(self) -> Self:
        try:
            for daemon in self.by_id.values():
                await daemon.start()
            for daemon in self.by_id.values():
                await daemon.wait_ready(self._http)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        """All are killed: none of them has anything to hand over to."""
        for daemon in self.by_id.values():
            if daemon.is_running:
                await daemon.kill()
            daemon.release_ports()

    @property
    def running(self) -> Sequence[DaemonProcess]:
        return [daemon for daemon in self.by_id.values() if daemon.is_running]

    def address(self, broker: int) -> str:
        """The address of a broker's process."""
        return f"127.0.0.1:{self.by_id[broker].service_port}"

    # What an operator asks; any broker sends it on to the controller.

    async def order(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, at: int = 1
    ) -> Any:
        """The answer of the controller, once there is one.

        Raises:
            AssertionError: it refused.
        """
        url = f"{self.by_id[at].url}{_ROOT}{path}"

        async def answer() -> HttpReply | None:
            reply = await self._http.request(method, url, json=body, allow_redirects=True)
            return None if reply.status == _LATER else reply

        reply = await eventually(answer, _PATIENCE_S, "a controller")
        assert reply.status == 200, (path, reply.status, reply.body)
        return reply.json()

    async def create(self, topic: str, replicas: Sequence[int], at: int = 1, **rules: Any) -> None:
        """A topic with one partition, once the controller counts all that run as live."""
        await eventually(partial(self._knows_all, at), _PATIENCE_S, "a controller of all brokers")
        await self.order(
            "PUT", f"/topics/{topic}", {"replicas": {"0": list(replicas)}, **rules}, at
        )

    async def controller(self, at: int = 1) -> Mapping[str, Any] | None:
        """The status of the controller; None while there is none."""
        try:
            url = f"{self.by_id[at].url}{_ROOT}/controller"
            reply = await self._http.request("GET", url, allow_redirects=True)
        except HttpError:
            return None
        return dict(reply.json()) if reply.status == 200 else None

    async def _knows_all(self, at: int) -> bool:
        """A daemon that is ready may be new to a controller that was just elected."""
        status = await self.controller(at)
        rows = [] if status is None else status["brokers"]
        live = {row["broker"] for row in rows if row["state"] == "live"}
        return live >= {number for number, daemon in self.by_id.items() if daemon.is_running}

    # What a client asks.

    async def led(self, partition: TopicPartition, at: int = 1) -> Mapping[str, Any] | None:
        """The leader of a partition, as one broker knows it; None while it does not answer."""
        url = f"{self.by_id[at].url}/partitions/v1/leader/{partition.topic}/{partition.partition}"
        try:
            reply = await self._http.request("GET", url)
        except HttpError:
            return None
        return dict(reply.json()) if reply.status == 200 else None

    async def wait_led(
        self, partition: TopicPartition, leader: int, isr: Sequence[int] = (), at: int = 1
    ) -> Mapping[str, Any]:
        """Wait until this broker leads, with these in sync where that is asked for."""

        async def is_led() -> Mapping[str, Any] | None:
            found = await self.led(partition, at)
            if found is None or found["leader"] != leader:
                return None
            return found if not isr or sorted(isr) == sorted(found["isr"]) else None

        return await eventually(is_led, _PATIENCE_S, f"{leader} leads {partition}")
