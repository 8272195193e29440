"""Replicas of a broker process: real logs on a disk, fetched over TCP, instructed over HTTP."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from broker_ctl import codec
from broker_ctl.core.partitions.instructions import ReplicaError
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.dataplane.webhook import replica_wire
from broker_ctl.lab.replication.plane import SimulatedReplicas
from broker_ctl.lab.replication.storage import DirectoryStorage
from broker_ctl.lab.replication.tcp import TcpNetwork
from docs.examples.reference_broker import ReferenceBroker

_Fields = dict[str, Any]


class ReplicaRoutes:
    """What `broker_ctl.dataplane.webhook.replica_wire` asks of a broker process."""

    def __init__(self, broker: ReferenceBroker, number: int, address: str, logs: Path) -> None:
        self._broker = broker
        self._plane = SimulatedReplicas(
            number,
            address,
            DirectoryStorage(logs),
            TcpNetwork(),
            clock=broker.clock,
            authority=lambda: broker.authority,
            rng=random.Random(number),
        )

    def add_to(self, app: web.Application) -> None:
        app.cleanup_ctx.append(self._serving)
        app.router.add_get(replica_wire.REPLICAS, self._answered(self._held))
        app.router.add_get(replica_wire.ISR_WISHES, self._wishes)
        app.router.add_post(replica_wire.BECOME_LEADER, self._answered(self._lead))
        app.router.add_post(replica_wire.BECOME_FOLLOWER, self._answered(self._follow))
        app.router.add_post(replica_wire.STOP, self._answered(self._stop))
        app.router.add_post(replica_wire.ISR_ANSWERS, self._answered(self._answer))

    async def _serving(self, _: web.Application) -> AsyncIterator[None]:
        await self._plane.start()
        yield
        await self._plane.stop()

    def _answered(
        self, act: Callable[[_Fields], Awaitable[_Fields]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            data = await request.read()
            body = codec.decode_object(data) if data else {}
            self._broker.calls.check_instance(body)
            return self._reply(await act(body))

        return handle

    def _reply(self, found: _Fields) -> web.Response:
        row = {"instance_id": self._broker.instance_id, **found}
        return web.Response(body=codec.encode(row), content_type="application/json")

    async def _held(self, _: _Fields) -> _Fields:
        return replica_wire.replicas_json(await self._plane.replicas())

    async def _wishes(self, request: web.Request) -> web.Response:
        lag_time_s = replica_wire.lag_time_s(request.query)
        assert lag_time_s is not None
        throttle = replica_wire.throttle(request.query)
        found = await self._plane.isr_proposals(lag_time_s, throttle)
        return self._reply(replica_wire.wishes_json(found))

    async def _lead(self, body: _Fields) -> _Fields:
        states = replica_wire.decode_instruction(body)
        await self._admit(body, [one.partition for one in states])
        return _errors(await self._plane.become_leader(states))

    async def _follow(self, body: _Fields) -> _Fields:
        states, brokers = replica_wire.decode_instruction(body), replica_wire.brokers(body)
        await self._admit(body, [one.partition for one in states])
        return _errors(await self._plane.become_follower(states, brokers))

    async def _stop(self, body: _Fields) -> _Fields:
        stops = replica_wire.stops(body)
        await self._admit(body, [stop.partition for stop in stops])
        return _errors(await self._plane.stop_replicas(stops))

    async def _admit(self, body: _Fields, named: Collection[TopicPartition]) -> None:
        held = {one.partition for one in await self._plane.replicas()}
        self._broker.calls.admit_replicas(body, named, held)

    async def _answer(self, body: _Fields) -> _Fields:
        await self._plane.answer_proposals(replica_wire.answers(body))
        return {}


def _errors(errors: Sequence[ReplicaError]) -> _Fields:
    return replica_wire.errors_json(errors)
