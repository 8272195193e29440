"""``/control/v1/partitions``: replicated topics, reassignments and elections, for operators.

The controller does all of it: any other broker redirects to it. Each change accepts
``dry_run=true``: it is checked and its result reported, and nothing is written.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.access.authorization import may_everywhere
from broker_ctl.api.http.dependencies import Dependencies, PartitionDependencies
from broker_ctl.api.http.partition_params import (
    MOST_PARTITIONS,
    THROTTLE,
    UNCLEAN_ELECTION,
    brokers_in,
    changes_in,
    election_in,
    flag_in,
    names_in,
    number_in,
    partition_in_query,
    partitions_in,
    replicas_in,
    rules_in,
    targets_in,
    throttle_in,
    topic_id_in,
    topic_in_path,
)
from broker_ctl.api.http.redirects import redirect_to_controller
from broker_ctl.api.http.request_params import (
    is_dry_run,
    object_in,
    supports_dry_run,
    whole_number_in,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.core.model.commands import Reply
from broker_ctl.errors import InvalidReplicas
from broker_ctl.security.authorization import Operation

_ROOT: Final = "/control/v1/partitions"
_TOPICS: Final = f"{_ROOT}/topics"
_TOPIC: Final = f"{_TOPICS}/{{topic}}"
_REASSIGNMENTS: Final = f"{_ROOT}/reassignments"
_SHUTDOWN: Final = "/control/v1/controlled-shutdown"
_MOST_REPLICAS: Final = 100
_LISTED: Final = 50
_MOST_LISTED: Final = 1000
_MOST_ZXID: Final = 2**63 - 1
_MOST_ID: Final = 2**31 - 1

_Handler = Callable[[web.Request], Awaitable[web.Response]]
_Action = Callable[[ControllerOperations, web.Request], Awaitable[web.Response]]


def require_partitions(dependencies: Dependencies) -> PartitionDependencies:
    """The dependencies of replicated partitions.

    Raises:
        ApiError: 404, this broker does not replicate partitions.
    """
    if dependencies.partitions is None:
        raise ApiError(
            404,
            "no replicated partitions here: brokerId is not set at this broker",
            kind="NotReplicated",
        )
    return dependencies.partitions


class PartitionRoutes:
    """Topics, reassignments, elections, the controller, and controlled shutdowns."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        at = self._at_controller
        return [
            web.get(f"{_ROOT}/controller", at(self.controller)),
            web.get(f"{_ROOT}/transitions", at(self.transitions)),
            web.get(f"{_ROOT}/explain", at(self.explain)),
            web.get(_TOPICS, at(self.topics)),
            web.get(_TOPIC, at(self.describe)),
            web.put(_TOPIC, at(self.create)),
            web.post(_TOPIC, at(self.grow)),
            web.delete(_TOPIC, at(self.delete)),
            web.post(f"{_TOPIC}/rules", at(self.alter)),
            web.put(f"{_TOPIC}/topic-id", at(self.adopt)),
            web.post(f"{_ROOT}/plan", at(self.plan)),
            web.get(_REASSIGNMENTS, at(self.reassignments)),
            web.put(_REASSIGNMENTS, at(self.reassign)),
            web.delete(_REASSIGNMENTS, at(self.cancel)),
            web.post(f"{_REASSIGNMENTS}/throttle", at(self.throttle)),
            web.post(f"{_ROOT}/elections", at(self.elect)),
            web.post(_SHUTDOWN, at(self.shut_down)),
        ]

    def _at_controller(self, action: _Action) -> _Handler:
        """Run at the controller; elsewhere 307 to it, or 503 while there is no controller."""

        @functools.wraps(action)
        async def handle(request: web.Request) -> web.Response:
            partitions = require_partitions(self._dependencies)
            admin = partitions.admin()
            if admin is not None:
                return await action(admin, request)
            dependencies = self._dependencies
            return redirect_to_controller(
                request, dependencies.cluster, dependencies.own_id, partitions.controller()
            )

        return handle

    async def controller(self, admin: ControllerOperations, _: web.Request) -> web.Response:
        """The controller, its epoch and its pending work."""
        return responses.json(dict(admin.overview()))

    async def transitions(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """The newest changes of leaders and ISRs, of all or of one ``topic`` or ``partition``."""
        topic, partition = partition_in_query(request)
        limit = whole_number_in(request, "limit", _LISTED, _MOST_LISTED)
        return responses.json(admin.transitions(topic, partition, limit))

    async def explain(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """Why the ``partition`` of a ``topic`` has its leader; 404: no such partition."""
        topic, partition = partition_in_query(request)
        if topic is None or partition is None:
            raise ApiError(400, "topic and partition are required")
        return responses.json(dict(admin.explain(topic, partition)))

    # Topics.

    async def topics(self, admin: ControllerOperations, _: web.Request) -> web.Response:
        """All replicated topics, with counts of their unhealthy partitions."""
        return responses.json(admin.topics())

    async def describe(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """The partitions of a topic; 404: no such topic."""
        return responses.json(dict(admin.describe(topic_in_path(request))))

    @supports_dry_run
    async def create(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """``replicas``, or ``partitions`` and ``replication_factor``; 409: it exists already."""
        topic, body = topic_in_path(request), await object_in(request)
        replicas, rules = replicas_in(body), rules_in(body)
        if bool(replicas) == ("partitions" in body):
            raise ApiError(400, "a new topic needs replicas or a number of partitions")
        if not replicas:
            partitions = number_in(body, "partitions", 1, MOST_PARTITIONS)
            factor = number_in(body, "replication_factor", 1, _MOST_REPLICAS)
            replicas = dict(admin.spread(partitions, factor))
        placed = {str(number): ids for number, ids in replicas.items()}
        note_change(request, after={"replicas": placed})
        reply = await admin.create_topic(topic, replicas, rules, is_dry_run=is_dry_run(request))
        return responses.json(dict(reply))

    @supports_dry_run
    async def grow(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """Grow to ``partitions`` in all; ``replicas`` places new ones, the others are spread."""
        topic, body = topic_in_path(request), await object_in(request)
        # A topic may have more than one request can add: only the number of new ones is limited.
        partitions = number_in(body, "partitions", 1, _MOST_ID)
        known = len(admin.describe(topic)["partitions"])
        if partitions - known > MOST_PARTITIONS:
            raise InvalidReplicas(
                f"{topic} has {known} partitions: a request adds at most {MOST_PARTITIONS}"
            )
        note_change(request, before={"partitions": known}, after={"partitions": partitions})
        reply = await admin.grow_topic(
            topic, partitions, replicas_in(body), is_dry_run=is_dry_run(request)
        )
        return responses.json(dict(reply))

    @supports_dry_run
    async def delete(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """Start the deletion of a topic; 404: no such topic."""
        topic = topic_in_path(request)
        known = admin.describe(topic).get("partitions", ())
        note_change(request, before={"partitions": len(known)})
        return responses.json(dict(await admin.delete_topic(topic, is_dry_run=is_dry_run(request))))

    @supports_dry_run
    async def alter(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """``min_isr`` and ``unclean``: null resets to the setting, absent is unchanged."""
        topic, body = topic_in_path(request), await object_in(request)
        changes = changes_in(body)
        note_change(request, after=body)
        reply = await admin.alter_topic(topic, changes, is_dry_run=is_dry_run(request))
        return responses.json(dict(reply))

    @supports_dry_run
    async def adopt(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """``topic_id`` for a topic without one; absent: a new id; 409: the topic has an id."""
        topic, topic_id = topic_in_path(request), topic_id_in(await object_in(request))
        note_change(request, after={"topic_id": topic_id})
        reply = await admin.adopt_topic(topic, topic_id, is_dry_run=is_dry_run(request))
        return responses.json(dict(reply))

    # Reassignments.

    async def plan(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """A plan that spreads ``topics`` evenly over ``brokers``; nothing is moved."""
        body = await object_in(request)
        topics, brokers = names_in(body), brokers_in(body)
        # The plan is computed in one step, which blocks the event loop.
        sizes = {row["topic"]: row["partitions"] for row in admin.topics()}
        count = sum(sizes.get(topic, 0) for topic in set(topics))
        if count > MOST_PARTITIONS:
            raise InvalidReplicas(
                f"{count} partitions: a plan has at most {MOST_PARTITIONS}; name fewer topics"
            )
        return responses.json(dict(admin.plan_reassignment(topics, brokers)))

    async def reassignments(self, admin: ControllerOperations, _: web.Request) -> web.Response:
        """Reassignments in progress, and what each waits for."""
        return responses.json(admin.reassignments())

    @supports_dry_run
    async def reassign(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """Start to move ``partitions``, all or none; replaces a reassignment in progress.

        ``throttle_bytes_per_s`` is the new throttle of all that are in progress.
        """
        body = await object_in(request)
        targets = targets_in(body)
        throttle = throttle_in(body)
        note_change(request, after=body)
        reply = await admin.reassign(targets, throttle, is_dry_run=is_dry_run(request))
        return responses.json(dict(reply))

    @supports_dry_run
    async def throttle(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """Change ``throttle_bytes_per_s`` of the reassignments in progress; null: no limit."""
        body = await object_in(request)
        if THROTTLE not in body:
            raise ApiError(400, f"{THROTTLE} is required")
        throttle = throttle_in(body)
        reply = await admin.throttle_reassignments(throttle, is_dry_run=is_dry_run(request))
        note_change(request, before={THROTTLE: reply["before"][THROTTLE]}, after=body)
        return responses.json(dict(reply))

    @supports_dry_run
    async def cancel(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """Move ``partitions`` back; absent: all; 404: one is not being reassigned."""
        body = await object_in(request)
        partitions = partitions_in(body)
        note_change(request, after=body)
        return responses.json(
            dict(await admin.cancel_reassignment(partitions, is_dry_run=is_dry_run(request)))
        )

    # Leaders.

    @supports_dry_run
    async def elect(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """``kind`` is preferred or unclean; unclean ones need ``partitions`` and a super user.

        They give up records that were acknowledged, as the deletion of a topic does.
        """
        body = await object_in(request)
        kind, partitions = election_in(body), partitions_in(body)
        if kind == UNCLEAN_ELECTION and not may_everywhere(request, Operation.DELETE):
            reason = "an unclean election gives up acknowledged records: it needs superUserRoles"
            raise ApiError(403, reason, kind="Forbidden")
        note_change(request, after=body)
        reply = await admin.elect(kind, partitions, is_dry_run=is_dry_run(request))
        note_change(
            request,
            before={"leaders": _leaders(reply, "before")},
            after={"kind": kind, "leaders": _leaders(reply, "leader")},
        )
        return responses.json(dict(reply))

    async def shut_down(self, admin: ControllerOperations, request: web.Request) -> web.Response:
        """Controlled shutdown: partitions that the broker still leads; 409: stale broker epoch."""
        body = await object_in(request)
        if "broker" not in body or "broker_epoch" not in body:
            raise ApiError(400, "broker and broker_epoch are required")
        broker_id = number_in(body, "broker", 0, _MOST_ID)
        broker_epoch = number_in(body, "broker_epoch", 0, _MOST_ZXID)
        is_forced = flag_in(body, "force")
        note_change(request, after=body)
        return responses.json(
            dict(await admin.shut_down(broker_id, broker_epoch, is_forced=is_forced))
        )


def _leaders(reply: Reply, which: str) -> dict[str, int]:
    """The leader of each partition of an election."""
    return {f"{row['topic']}-{row['partition']}": row[which] for row in reply["partitions"]}
