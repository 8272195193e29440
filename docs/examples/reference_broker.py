"""The smallest honest broker process behind the data-plane API: read this before you build one.

    python -m docs.examples.reference_broker --port 9090 --secret-file F --authority-url U

It keeps no message. ``POST /publish {topic}`` stands for all that a broker does with a topic, and
is refused (404) where this process may not act. What is asked of a broker is in
`broker_ctl.dataplane.webhook.wire`; the rules about tokens are those of `BundleTable`, and those
about late calls those of `CallGate`.

With ``--broker-id`` it also keeps replicas of partitions
(`broker_ctl.dataplane.webhook.replica_wire`), by the rules of `ReplicaTable` and `Leaderships`;
nothing is fetched, since it has no other end.
"""

import argparse
import asyncio
import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from broker_ctl import codec
from broker_ctl.clock import SystemClock
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Topic
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.dataplane.bundles.bundle_table import BundleTable, LoadedBundle
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook import replica_wire, wire
from broker_ctl.errors import (
    CorruptRecord,
    DataPlaneFenced,
    DataPlaneRefused,
    HttpError,
    InvalidName,
)
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.replication.leaderships import Leaderships
from broker_ctl.lab.replication.plane import ReplicaTable
from broker_ctl.lab.replication.storage import MemoryStorage
from broker_ctl.tasks import TaskScope
from docs.examples.call_gate import CallGate, MeantForAnother

Fields = dict[str, Any]

_REFUSALS = (
    DataPlaneFenced,
    DataPlaneRefused,
    MeantForAnother,
    ValueError,
    CorruptRecord,
    InvalidName,
)
# Where a daemon of an earlier release does not say how long a follower may lag.
_OWN_LAG_TIME_S = 30.0
_Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _HttpApi:
    """Requests and answers as the module `wire` has them: secret, instance, errors."""

    def __init__(self, secret: str) -> None:
        self.instance_id = secrets.token_hex(8)  # new at each start
        self.calls = CallGate(self.instance_id)  # promise 5
        self._secret = secret

    async def _get(
        self, answer: Callable[[Mapping[str, str]], Fields], request: web.Request
    ) -> web.Response:
        return self._reply(200, answer(request.query))

    async def _post(self, act: Callable[[Fields], Fields], request: web.Request) -> web.Response:
        body = codec.decode_object(await request.read())
        self.calls.check_instance(body)
        return self._reply(200, act(body))

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Next) -> web.StreamResponse:
        """The secret first; then every error in the words of the API."""
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self._secret}".encode()):
            return web.Response(status=401)
        try:
            return await handler(request)
        except _REFUSALS as error:
            return self._reply(_status_of(error), {"reason": str(error)})
        except web.HTTPException as error:  # 404 of the router, 413 of the body's limit
            return self._reply(error.status, {"reason": error.reason})

    def _reply(self, status: int, fields: Fields) -> web.Response:
        body = codec.encode({"instance_id": self.instance_id, **fields})
        return web.Response(status=status, body=body, content_type="application/json")


def _status_of(error: Exception) -> int:
    match error:
        case DataPlaneFenced():
            return 409
        case DataPlaneRefused():
            return 404
        case MeantForAnother():
            return 412
        case _:
            return 400


class ReferenceBroker(_HttpApi):
    """The state of one process: what is loaded (with all tokens seen), and until when to act."""

    def __init__(
        self,
        secret: str,
        authority_url: str | None,
        pull_s: float = 0.5,
        broker_id: int | None = None,
    ) -> None:
        super().__init__(secret)
        self.table = BundleTable()  # promises 1 to 3
        self.authority = Authority()  # promise 4: none at the start
        self.clock = SystemClock()  # CLOCK_BOOTTIME: counts while the machine sleeps
        self._authority_url = authority_url
        self._pull_s = pull_s
        self.replicas = None if broker_id is None else ReferenceReplicas(self, broker_id)

    def app(self) -> web.Application:
        """The HTTP API of `broker_ctl.dataplane.webhook.wire`, and ``POST /publish``."""
        app = web.Application(middlewares=[self._guard], client_max_size=wire.MAX_REQUEST_BYTES)
        app.cleanup_ctx.append(self._pulling)
        for path, answer in {
            wire.STATE: self.state,
            wire.TOPICS: self.topics,
            wire.TOPIC_STATISTICS: self.topic_statistics,
            wire.STATISTICS: self.statistics,
            wire.USAGE: self.usage,
        }.items():
            app.router.add_get(path, partial(self._get, answer))
        for path, act in {
            wire.LOAD: self.load,
            wire.RENEW: self.renew,
            wire.SPLIT: self.split,
            wire.MERGE: self.merge,
            wire.UNLOAD: self.unload,
            wire.FENCE: self.fence,
            wire.UNLOAD_TOPIC: self.unload_topic,
            wire.ATTACH: self.attach,
            "/publish": self.publish,
        }.items():
            app.router.add_post(path, partial(self._post, act))
        if self.replicas is not None:
            for path, show in self.replicas.answers().items():
                app.router.add_get(path, partial(self._get, show))
            for path, do in self.replicas.acts().items():
                app.router.add_post(path, partial(self._post, do))
        return app

    def state(self, _: Mapping[str, str]) -> Fields:
        """Answer what is loaded here, under which tokens, and for how long it may act."""
        held = {entry.bundle: entry.token for entry in self.table}
        left_ms = self.authority.remaining_ms(self.clock.now_s())
        authority = wire.authority_json(self.authority.session_epoch, left_ms)
        return {
            "bundles": wire.tokens_json(held),
            "authority": authority,
            "version": "reference",
        }

    def topics(self, query: Mapping[str, str]) -> Fields:
        """Answer the open topics of a bundle."""
        return {"topics": sorted(self.table.get(wire.bundle(query.get("bundle"))).open)}

    def topic_statistics(self, query: Mapping[str, str]) -> Fields:
        """Answer what each open topic of a bundle carries."""
        names = sorted(self.table.get(wire.bundle(query.get("bundle"))).open)
        return wire.topic_statistics_json({name: BundleStats(topics=1) for name in names})

    def statistics(self, _: Mapping[str, str]) -> Fields:
        """Answer what each loaded bundle carries."""
        stats = {entry.bundle: BundleStats(topics=len(entry.open)) for entry in self.table}
        return wire.statistics_json(stats)

    def usage(self, _: Mapping[str, str]) -> Fields:
        """Leave the host's usage to the daemon."""
        return wire.usage_json(None)

    def attach(self, body: Fields) -> Fields:
        """End the calls of the daemon that was attached before."""
        return dict(self.calls.attach(body))

    def load(self, body: Fields) -> Fields:
        """Load a bundle under its token."""
        bundle, token = wire.bundle(body.get("bundle")), wire.count(body, "token")
        self.calls.admit(body, bundle)
        self.table.load(bundle, token)
        return {}

    def renew(self, body: Fields) -> Fields:
        """Raise the token of a loaded bundle."""
        bundle, token = wire.bundle(body.get("bundle")), wire.count(body, "token")
        self.calls.admit(body, bundle)
        self.table.renew(bundle, token)
        return {}

    def split(self, body: Fields) -> Fields:
        """Replace a bundle by its children."""
        parent, children = wire.bundle(body.get("parent")), wire.tokens(body, "children")
        self.calls.admit(body, parent)
        self.table.split(parent, children)
        return {}

    def merge(self, body: Fields) -> Fields:
        """Replace two children by their parent."""
        left, right = map(wire.bundle, wire.field(body, "children", list))
        parent, token = wire.bundle(body.get("parent")), wire.count(body, "token")
        self.calls.admit(body, parent)
        self.table.merge((left, right), parent, token)
        return {}

    def unload(self, body: Fields) -> Fields:
        """Close a bundle's topics, and drop the bundle."""
        bundle = wire.bundle(body.get("bundle"))
        wire.count(body, "deadline_ms")  # closing takes this broker no time
        self.calls.admit(body, bundle)
        closed = sum(len(entry.open) for entry in self.table.overlapping(bundle))
        self.table.drop(bundle)
        return {"topics_closed": closed, "is_confirmed": True}

    def fence(self, body: Fields) -> Fields:
        """Drop a bundle at once."""
        bundle = wire.bundle(body.get("bundle"))
        self.calls.admit(body, bundle)
        self.table.drop(bundle)
        return {}

    def unload_topic(self, body: Fields) -> Fields:
        """Close one topic of a loaded bundle."""
        topic = Topic.parse(wire.field(body, "topic", str))
        self._entry(topic).open.discard(str(topic))
        return {}

    def publish(self, body: Fields) -> Fields:
        """An act: bundle and deadline are looked at in the moment in which it starts."""
        topic = Topic.parse(wire.field(body, "topic", str))
        entry = self._entry(topic)
        if not self.authority.is_valid(self.clock.now_s()):
            raise DataPlaneRefused("no authority")
        entry.open.add(str(topic))
        return {"token": entry.token}

    def _entry(self, topic: Topic) -> LoadedBundle:
        for entry in self.table:
            bundle = entry.bundle
            if bundle.namespace == topic.namespace and topic.ring_hash in bundle.range:
                return entry
        raise DataPlaneRefused(f"{topic} is not loaded")

    async def pull_authority(self, http: HttpClient, url: str) -> None:
        """Ask the daemon how long to act; no answer changes nothing."""
        asked_s = self.clock.now_s()  # before the request is sent, not when it is answered
        with contextlib.suppress(HttpError, ValueError):
            reply = await http.request("GET", url)
            if reply.status == 200:
                epoch, remaining_ms = wire.authority(reply.json())
                self.authority = Authority(epoch, asked_s + remaining_ms / 1000)

    async def _pull_for_ever(self, http: HttpClient, url: str) -> None:
        while True:
            await self.pull_authority(http, url)
            await asyncio.sleep(self._pull_s)

    async def _pulling(self, _: web.Application) -> AsyncIterator[None]:
        async with (
            HttpClient(token=self._secret, timeout_s=1.0, max_body_bytes=4096) as http,
            TaskScope("reference broker") as tasks,
        ):
            if self._authority_url is not None:
                tasks.start(self._pull_for_ever(http, self._authority_url), "authority")
            yield


class ReferenceReplicas:
    """What it holds of partitions; on a disk that is as good as its memory."""

    def __init__(self, broker: ReferenceBroker, broker_id: int) -> None:
        self._calls = broker.calls
        storage = MemoryStorage()
        self.table = ReplicaTable(storage)
        self.leaders = Leaderships(
            broker_id,
            self.table.replicas,
            storage,
            clock=broker.clock,
            authority=lambda: broker.authority,
        )

    def answers(self) -> Mapping[str, Callable[[Mapping[str, str]], Fields]]:
        """Handlers of requests that change nothing, by path."""
        return {
            replica_wire.REPLICAS: lambda _: replica_wire.replicas_json(self.table.held()),
            replica_wire.ISR_WISHES: self.wishes,
        }

    def wishes(self, query: Mapping[str, str]) -> Fields:
        """Answer the changes of ISRs that the leaders here ask for."""
        lag_time_s = replica_wire.lag_time_s(query) or _OWN_LAG_TIME_S
        self.leaders.throttle.set_rate(replica_wire.throttle(query))
        return replica_wire.wishes_json(self.leaders.proposals(lag_time_s))

    def acts(self) -> Mapping[str, Callable[[Fields], Fields]]:
        """Handlers of calls, by path."""
        return {
            replica_wire.BECOME_LEADER: self.lead,
            replica_wire.BECOME_FOLLOWER: self.follow_all,
            replica_wire.STOP: self.stop,
            replica_wire.ISR_ANSWERS: self.answer,
        }

    def lead(self, body: Fields) -> Fields:
        """Become the leader of partitions."""
        instructions = replica_wire.decode_instruction(body)
        self._admit(body, [one.partition for one in instructions])
        return replica_wire.errors_json(self.table.lead(instructions, self.leaders, self))

    def follow_all(self, body: Fields) -> Fields:
        """Become a follower of partitions."""
        replica_wire.brokers(body)  # this example fetches from no leader
        instructions = replica_wire.decode_instruction(body)
        self._admit(body, [one.partition for one in instructions])
        return replica_wire.errors_json(self.table.follow(instructions, self.leaders, self))

    def stop(self, body: Fields) -> Fields:
        """Give replicas up."""
        stops = replica_wire.stops(body)
        self._admit(body, [stop.partition for stop in stops])
        return replica_wire.errors_json(self.table.stop(stops, self.leaders, self))

    def _admit(self, body: Fields, named: Collection[TopicPartition]) -> None:
        self._calls.admit_replicas(body, named, self.table.replicas)

    def answer(self, body: Fields) -> Fields:
        """Pass the controller's answers on to the leaders that asked."""
        for answer in replica_wire.answers(body):
            self.leaders.answer(answer)
        return {}

    # Its own `FollowerSide`: nothing is fetched.

    def follow(self, partition: TopicPartition, leader: int) -> None:
        """Fetch a partition from its leader: there is nothing to fetch from."""

    def forget(self, partition: TopicPartition) -> None:
        """End the fetching of a partition."""


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="A reference broker process")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--secret-file", type=Path, required=True)
    parser.add_argument("--authority-url")
    parser.add_argument("--broker-id", type=int)
    options = parser.parse_args()
    secret = options.secret_file.read_text().strip()
    broker = ReferenceBroker(secret, options.authority_url, broker_id=options.broker_id)
    web.run_app(broker.app(), host="127.0.0.1", port=options.port, print=None)


if __name__ == "__main__":
    main()
