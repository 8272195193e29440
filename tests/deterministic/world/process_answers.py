"""What a broker process answers to its daemon: the API of `wire` and `replica_wire`, in memory."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

from broker_ctl import codec
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.dataplane.webhook import replica_wire, wire
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused, InvalidName
from broker_ctl.http_client import HttpReply
from broker_ctl.lab.replication.plane import SimulatedReplicas
from broker_ctl.lab.simulated import SimulatedDataPlane
from docs.examples.call_gate import CallGate, MeantForAnother

Fields = Mapping[str, Any]
_Answer = Callable[[Fields], Awaitable[Fields]]


class ProcessAnswers:
    """Of one process, from its start on; ``calls`` is what it keeps of them."""

    def __init__(
        self, serving: SimulatedDataPlane, replicas: SimulatedReplicas, calls: CallGate
    ) -> None:
        self._serving = serving
        self._replicas = replicas
        self._calls = calls
        self._answers: Final[Mapping[str, _Answer]] = {
            wire.ATTACH: self._attach,
            wire.STATE: self._state,
            wire.TOPICS: self._topics,
            wire.TOPIC_STATISTICS: self._topic_statistics,
            wire.STATISTICS: self._statistics,
            wire.USAGE: self._usage,
            wire.LOAD: self._load,
            wire.RENEW: self._renew,
            wire.SPLIT: self._split,
            wire.MERGE: self._merge,
            wire.UNLOAD: self._unload,
            wire.FENCE: self._fence,
            wire.UNLOAD_TOPIC: self._unload_topic,
            replica_wire.REPLICAS: self._held,
            replica_wire.ISR_WISHES: self._wishes,
            replica_wire.BECOME_LEADER: self._lead,
            replica_wire.BECOME_FOLLOWER: self._follow,
            replica_wire.STOP: self._stop,
            replica_wire.ISR_ANSWERS: self._answer_proposals,
        }

    async def answer(self, path: str, body: Fields) -> HttpReply:
        """One call; ``body`` is the query of one that changes nothing."""
        try:
            self._calls.check_instance(body)
            status, fields = 200, await self._answers[path](body)
        except KeyError:
            status, fields = 404, {"reason": "no such path"}
        except MeantForAnother as error:
            status, fields = 412, {"reason": str(error)}
        except DataPlaneFenced as error:
            status, fields = 409, {"reason": str(error)}
        except DataPlaneRefused as error:
            status, fields = 404, {"reason": str(error)}
        except (ValueError, InvalidName) as error:
            status, fields = 400, {"reason": str(error)}
        row = {"instance_id": self._serving.instance_id, **fields}
        return HttpReply(status, {}, codec.encode(row))

    # Bundles.

    async def _state(self, _: Fields) -> Fields:
        return {"bundles": wire.tokens_json(await self._serving.loaded())}

    async def _topics(self, body: Fields) -> Fields:
        return {"topics": await self._serving.topics(wire.bundle(body["bundle"]))}

    async def _topic_statistics(self, body: Fields) -> Fields:
        found = await self._serving.topic_statistics(wire.bundle(body["bundle"]))
        return wire.topic_statistics_json(found)

    async def _statistics(self, _: Fields) -> Fields:
        return wire.statistics_json(await self._serving.statistics())

    async def _usage(self, _: Fields) -> Fields:
        return wire.usage_json(await self._serving.usage())

    async def _attach(self, body: Fields) -> Fields:
        return self._calls.attach(body)

    async def _load(self, body: Fields) -> Fields:
        bundle = self._admitted(body, "bundle")
        await self._serving.load(bundle, wire.count(body, "token"))
        return {}

    async def _renew(self, body: Fields) -> Fields:
        bundle = self._admitted(body, "bundle")
        await self._serving.renew(bundle, wire.count(body, "token"))
        return {}

    async def _split(self, body: Fields) -> Fields:
        parent = self._admitted(body, "parent")
        await self._serving.split(parent, wire.tokens(body, "children"))
        return {}

    async def _merge(self, body: Fields) -> Fields:
        left, right = map(wire.bundle, body["children"])
        parent = self._admitted(body, "parent")
        await self._serving.merge((left, right), parent, wire.count(body, "token"))
        return {}

    async def _unload(self, body: Fields) -> Fields:
        deadline_s = wire.count(body, "deadline_ms") / 1000
        done = await self._serving.unload(self._admitted(body, "bundle"), deadline_s)
        return {"topics_closed": done.topics_closed, "is_confirmed": done.is_confirmed}

    async def _fence(self, body: Fields) -> Fields:
        await self._serving.fence(self._admitted(body, "bundle"))
        return {}

    def _admitted(self, body: Fields, name: str) -> Bundle:
        bundle = wire.bundle(body[name])
        self._calls.admit(body, bundle)
        return bundle

    async def _unload_topic(self, body: Fields) -> Fields:
        await self._serving.unload_topic(body["topic"])
        return {}

    # Replicas.

    async def _held(self, _: Fields) -> Fields:
        return replica_wire.replicas_json(await self._replicas.replicas())

    async def _wishes(self, query: Fields) -> Fields:
        lag_time_s = replica_wire.lag_time_s(query)
        assert lag_time_s is not None
        throttle = replica_wire.throttle(query)
        found = await self._replicas.isr_proposals(lag_time_s, throttle)
        return replica_wire.wishes_json(found)

    async def _lead(self, body: Fields) -> Fields:
        states = replica_wire.decode_instruction(body)
        await self._admit(body, [one.partition for one in states])
        return replica_wire.errors_json(await self._replicas.become_leader(states))

    async def _follow(self, body: Fields) -> Fields:
        states, brokers = replica_wire.decode_instruction(body), replica_wire.brokers(body)
        await self._admit(body, [one.partition for one in states])
        return replica_wire.errors_json(await self._replicas.become_follower(states, brokers))

    async def _stop(self, body: Fields) -> Fields:
        stops = replica_wire.stops(body)
        await self._admit(body, [stop.partition for stop in stops])
        return replica_wire.errors_json(await self._replicas.stop_replicas(stops))

    async def _admit(self, body: Fields, named: Collection[TopicPartition]) -> None:
        held = {one.partition for one in await self._replicas.replicas()}
        self._calls.admit_replicas(body, named, held)

    async def _answer_proposals(self, body: Fields) -> Fields:
        await self._replicas.answer_proposals(replica_wire.answers(body))
        return {}
