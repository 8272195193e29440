"""``/control/v1/partitions``: replicated topics, their moves and elections, for operators.

All of it is the controller's: any other broker sends the request on to it. What changes something
takes ``dry_run=true``: it is judged and told as it would be done, and nothing is written.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import Dependencies, PartitionDependencies
from broker_ctl.api.http.dry_runs import is_dry_run, supports_dry_run
from broker_ctl.api.http.partition_params import (
    MOST_PARTITIONS,
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
    topic_id_in,
    topic_in_path,
)
from broker_ctl.api.http.redirects import redirect_to_controller
from broker_ctl.api.http.request_params import object_in, whole_number_in
from broker_ctl.api.http.responses import ApiError
from broker_ctl.controller.api import ControllerAdmin
from broker_ctl.errors import InvalidReplicas

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
_Act = Callable[[ControllerAdmin, web.Request], Awaitable[web.Response]]


def require_partitions(dependencies: Dependencies) -> PartitionDependencies:
    """What there is of replicated partitions.

    Raises:
        ApiError: 404, this broker takes no part in replication.
    """
    if dependencies.partitions is None:
        raise ApiError(
            404,
            "no replicated partitions here: brokerId is not set at this broker",
            kind="NotReplicated",
        )
    return dependencies.partitions


class PartitionRoutes:
    """Topics, reassignments, elections, the controller, and brokers that are about to stop."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        at = self._at_controller
        return [
            web.get(f"{_ROOT}/controller", at(self.controller)),
            web.get(f"{_ROOT}/transitions", at(self.transitions)),
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
            web.post(f"{_ROOT}/elections", at(self.elect)),
            web.post(_SHUTDOWN, at(self.shut_down)),
        ]

    def _at_controller(self, act: _Act) -> _Handler:
        """Done here where this broker controls; 307 to the controller, 503 while there is none."""

        @functools.wraps(act)
        async def answered(request: web.Request) -> web.Response:
            partitions = require_partitions(self._dependencies)
            admin = partitions.admin()
            if admin is not None:
                return await act(admin, request)
            dependencies = self._dependencies
            return redirect_to_controller(
                request, dependencies.cluster, dependencies.own_id, partitions.controller()
            )

        return answered

    async def controller(self, admin: ControllerAdmin, _: web.Request) -> web.Response:
        """Who controls, at which epoch, and what it has to do."""
        return responses.json(dict(admin.overview()))

    async def transitions(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """The newest changes of leaders and ISRs; of ``topic``, and of its ``partition``."""
        topic, partition = partition_in_query(request)
        limit = whole_number_in(request, "limit", _LISTED, _MOST_LISTED)
        return responses.json(admin.transitions(topic, partition, limit))

    # Topics.

    async def topics(self, admin: ControllerAdmin, _: web.Request) -> web.Response:
        """All replicated topics, with counts of what is not well."""
        return responses.json(admin.topics())

    async def describe(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """A topic, partition by partition; 404: there is none."""
        return responses.json(dict(admin.describe(topic_in_path(request))))

    @supports_dry_run
    async def create(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """``replicas``, or ``partitions`` and ``replication_factor``; 409: it exists already."""
        topic, body = topic_in_path(request), await object_in(request)
        replicas, rules = replicas_in(body), rules_in(body)
        if bool(replicas) == ("partitions" in body):
            raise ApiError(400, "a new topic is given replicas, or a number of partitions")
        if not replicas:
            partitions = number_in(body, "partitions", 1, MOST_PARTITIONS)
            factor = number_in(body, "replication_factor", 1, _MOST_REPLICAS)
            replicas = dict(admin.spread(partitions, factor))
        reply = await admin.create_topic(topic, replicas, rules, is_dry_run=is_dry_run(request))
        return responses.json(dict(reply))

    @supports_dry_run
    async def grow(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """``partitions`` in all, with ``replicas`` of new ones; the others are spread."""
        topic, body = topic_in_path(request), await object_in(request)
        # The topic may have more than one request can make: the admin knows how many are new.
        partitions = number_in(body, "partitions", 1, _MOST_ID)
        known = len(admin.describe(topic)["partitions"])
        if partitions - known > MOST_PARTITIONS:
            raise InvalidReplicas(
                f"{topic} has {known} partitions: a request makes at most {MOST_PARTITIONS} more"
            )
        reply = await admin.grow_topic(
            topic, partitions, replicas_in(body), is_dry_run=is_dry_run(request)
        )
        return responses.json(dict(reply))

    @supports_dry_run
    async def delete(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """Its end is asked for; 404: there is none."""
        topic = topic_in_path(request)
        return responses.json(dict(await admin.delete_topic(topic, is_dry_run=is_dry_run(request))))

    @supports_dry_run
    async def alter(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """``min_isr`` and ``unclean``: null gives one back to the settings, absent it stays."""
        topic, changes = topic_in_path(request), changes_in(await object_in(request))
        reply = await admin.alter_topic(topic, changes, is_dry_run=is_dry_run(request))
        return responses.json(dict(reply))

    @supports_dry_run
    async def adopt(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """``topic_id`` for a topic that has none, absent a new one; 409: it has one, or another."""
        topic, topic_id = topic_in_path(request), topic_id_in(await object_in(request))
        reply = await admin.adopt_topic(topic, topic_id, is_dry_run=is_dry_run(request))
        return responses.json(dict(reply))

    # Reassignments.

    async def plan(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """Replicas for all partitions of ``topics``, evenly over ``brokers``; nothing is done."""
        body = await object_in(request)
        topics, brokers = names_in(body), brokers_in(body)
        # It is made in one go, beside everything else that this broker does.
        sizes = {row["topic"]: row["partitions"] for row in admin.topics()}
        count = sum(sizes.get(topic, 0) for topic in set(topics))
        if count > MOST_PARTITIONS:
            raise InvalidReplicas(
                f"{count} partitions: a plan has at most {MOST_PARTITIONS}; name fewer topics"
            )
        return responses.json(dict(admin.plan_reassignment(topics, brokers)))

    async def reassignments(self, admin: ControllerAdmin, _: web.Request) -> web.Response:
        """What is under way, and what it waits for."""
        return responses.json(admin.reassignments())

    @supports_dry_run
    async def reassign(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """Begin to move ``partitions``, all or none; one under way is overridden."""
        targets = targets_in(await object_in(request))
        return responses.json(dict(await admin.reassign(targets, is_dry_run=is_dry_run(request))))

    @supports_dry_run
    async def cancel(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """Move ``partitions`` back, without them all; 404: one of them is not under way."""
        partitions = partitions_in(await object_in(request))
        return responses.json(
            dict(await admin.cancel_reassignment(partitions, is_dry_run=is_dry_run(request)))
        )

    # Leaders.

    @supports_dry_run
    async def elect(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """``kind`` is preferred or unclean; unclean elections need ``partitions``."""
        body = await object_in(request)
        kind, partitions = election_in(body), partitions_in(body)
        return responses.json(
            dict(await admin.elect(kind, partitions, is_dry_run=is_dry_run(request)))
        )

    async def shut_down(self, admin: ControllerAdmin, request: web.Request) -> web.Response:
        """A broker is about to stop: what it still leads; 409: the epoch is of an earlier life."""
        body = await object_in(request)
        if "broker" not in body or "broker_epoch" not in body:
            raise ApiError(400, "broker and broker_epoch say who stops, in which life")
        broker_id = number_in(body, "broker", 0, _MOST_ID)
        broker_epoch = number_in(body, "broker_epoch", 0, _MOST_ZXID)
        is_forced = flag_in(body, "force")
        return responses.json(
            dict(await admin.shut_down(broker_id, broker_epoch, is_forced=is_forced))
        )
