"""A broker process beside its daemon: it outlives it, and dies and comes back without it."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from broker_ctl import codec
from broker_ctl.clock import Clock
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.bundles.serve_log import ServeLog
from broker_ctl.dataplane.webhook.webhook import WebhookDataPlane, WebhookReplicas
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.simulation.workload.workload import Workload
from docs.examples.call_gate import CallGate
from tests.deterministic.world.process_answers import ProcessAnswers
from tests.deterministic.world.replica_process import ReplicaProcess

_LONGEST_S: Final = 0.002
_TIMEOUT_S: Final = 1.0
ACT_TICK_S: Final = 0.25
URL: Final = "http://process"


class BrokerProcess:
    """One broker process after another; `ProcessCalls` is how a daemon calls it.

    ``network`` brings what it is sent, also while the process is stopped.

    Attributes:
        gates: what each of the processes has kept of its calls.
    """

    def __init__(
        self,
        broker_id: str,
        workload: Workload,
        clock: Clock,
        rng: random.Random,
        *,
        acts: ServeLog,
        replicas: ReplicaProcess,
        network: asyncio.AbstractEventLoop,
    ) -> None:
        self.replicas = replicas
        self.serving = SimulatedDataPlane(
            workload,
            clock,
            broker_id=broker_id,
            rng=rng,
            serve_log=acts,
            tick_s=ACT_TICK_S,
            topic_close_s=0.01,
            origin_s=0.0,
        )
        self.gates: list[CallGate] = []
        self._network = network
        self._answers: ProcessAnswers | None = None

    @property
    def is_alive(self) -> bool:
        return self._answers is not None

    async def start(self) -> None:
        """A new process, which has forgotten everything but what is on the disk."""
        await self.replicas.start()
        await self.replicas.run(self.serving.start())
        assert self.replicas.replicas is not None
        gate = CallGate(self.serving.instance_id)
        self.gates.append(gate)
        self._answers = ProcessAnswers(self.serving, self.replicas.replicas, gate)

    async def kill(self) -> None:
        self._answers = None
        # Of one that is stopped, nothing runs any more.
        self.serving.grant(0, 0.0)
        if self.replicas.loop.is_stopped:
            self.replicas.loop.continue_process()
        await self.replicas.run(self.serving.stop())
        await self.replicas.kill()

    def bring(
        self, late_s: float, path: str, body: Mapping[str, Any], reply: "asyncio.Future[HttpReply]"
    ) -> None:
        """A call is on its way; the process that lives when it arrives gets it."""
        self._network.call_later(late_s, self._arrive, path, body, reply)

    def _arrive(
        self, path: str, body: Mapping[str, Any], reply: "asyncio.Future[HttpReply]"
    ) -> None:
        answers = self._answers
        if answers is None:
            _resolve(reply, HttpError("nobody listens"))
            return

        def on_answered(done: asyncio.Task[HttpReply]) -> None:
            is_dead = self._answers is not answers
            _resolve(reply, HttpError("it was reset") if is_dead else done.result())

        loop = self.replicas.loop
        loop.create_task(answers.answer(path, body), name=path).add_done_callback(on_answered)


def _resolve(reply: "asyncio.Future[HttpReply]", answer: HttpReply | HttpError) -> None:
    if reply.done():
        return
    if isinstance(answer, HttpError):
        reply.set_exception(answer)
    else:
        reply.set_result(answer)


class ProcessCalls(HttpClient):
    """`HttpClient` of one daemon to its broker process: calls and answers get lost, or come late.

    Attributes:
        is_severed: the daemon is dead, whatever its tasks still do.
        losses: for the next calls, whether each is carried out before its answer is lost.
        late_s: for the next calls that change something, how long each is on its way.
    """

    def __init__(self, process: BrokerProcess, rng: random.Random) -> None:
        super().__init__(timeout_s=_TIMEOUT_S, max_body_bytes=0)
        self._process = process
        self._rng = rng
        self.is_severed = False
        self.losses: list[bool] = []
        self.late_s: list[float] = []

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float | None = None,
        allow_redirects: bool = False,  # noqa: ARG002
        sign: object = None,  # noqa: ARG002
        ssl: object = None,  # noqa: ARG002
    ) -> HttpReply:
        where = urlsplit(url)
        data = codec.encode(json) if json is not None else content
        body = dict(parse_qsl(where.query)) if data is None else codec.decode_object(data)
        is_done = self.losses.pop() if self.losses else None
        late_s = self.late_s.pop() if method == "POST" and self.late_s else 0.0
        await self._pass(is_lost=is_done is False)
        reply: asyncio.Future[HttpReply] = asyncio.get_running_loop().create_future()
        self._process.bring(late_s, where.path, body, reply)
        try:
            async with asyncio.timeout(timeout_s or _TIMEOUT_S):
                answer = await reply
        except TimeoutError:
            raise HttpError(f"{method} {url}: no answer in time") from None
        await self._pass(is_lost=is_done is True)
        return answer

    async def _pass(self, *, is_lost: bool) -> None:
        await asyncio.sleep(self._rng.random() * _LONGEST_S)
        if is_lost or self.is_severed:
            raise HttpError("no answer")


class DataPlaneLink(WebhookDataPlane):
    """`DataPlane` of one daemon; its authority is there at once, and not when it is asked for."""

    def __init__(self, process: BrokerProcess, clock: Clock, rng: random.Random) -> None:
        self.calls = ProcessCalls(process, rng)
        super().__init__(URL, self.calls, clock, failure_timeout_s=0.0)
        self._process = process
        self.replicas: ReplicaLink | None = None

    def sever(self) -> None:
        """The daemon is dead: nothing that it still does is heard of."""
        self.calls.is_severed = True
        if self.replicas is not None:
            self.replicas.sever()

    @property
    def is_severed(self) -> bool:
        """The daemon is dead."""
        return self.calls.is_severed

    async def stop(self) -> None:
        await super().stop()
        self.grant(0, 0.0)

    def grant(self, session_epoch: int, deadline_s: float) -> None:
        super().grant(session_epoch, deadline_s)
        if not self.calls.is_severed and self._process.is_alive:
            self._process.serving.grant(session_epoch, deadline_s)


class ReplicaLink(WebhookReplicas):
    """`ReplicaPlane` of one daemon, over the same calls.

    Args:
        authority: how long the process may take writes, as long as the daemon lives.
    """

    def __init__(
        self, dataplane: DataPlaneLink, process: ReplicaProcess, authority: Callable[[], Authority]
    ) -> None:
        super().__init__(dataplane.link)
        self._process = process
        self._authority = authority
        process.granted = authority

    async def start(self) -> None:
        """The process lives without it."""

    async def stop(self) -> None:
        """The process lives on."""

    def sever(self) -> None:
        """The daemon is dead; the process knows what it said last."""
        if self._process.granted is self._authority:
            last = self._authority()
            self._process.granted = lambda: last
