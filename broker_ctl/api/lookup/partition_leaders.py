"""``GET /partitions/v1/leader/...``: where a replicated partition is led, for clients.

Any broker answers, from its own cache, and open as lookups are: also one without a brokerId.
"""

from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.limits import ConcurrencyLimit
from broker_ctl.api.http.partition_params import topic_in_path
from broker_ctl.broker.replicas.partition_leaders import LedPartition
from broker_ctl.core.partitions.values import NO_LEADER

_TOPIC: Final = "/partitions/v1/leader/{topic}"
# Ten digits hold every number that a partition may have.
_PARTITION: Final = f"{_TOPIC}/{{partition:[0-9]{{1,10}}}}"


class PartitionLeaderRoutes:
    """Where the clients of a partition go."""

    def __init__(self, dependencies: Dependencies, bound: ConcurrencyLimit) -> None:
        self._services = dependencies.services
        self._bound = bound

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.get(_TOPIC, self.of_topic), web.get(_PARTITION, self.of_partition)]

    async def of_partition(self, request: web.Request) -> web.Response:
        """200, with leader -1 or without an address while it has no leader; 404: no such one."""
        topic, number = topic_in_path(request), int(request.match_info["partition"])
        leaders = self._services.partition_leaders
        with self._bound.held():
            led = await leaders.find(topic, number)
        return responses.json({"topic": topic, "topic_id": led.topic_id, **_row(led)})

    async def of_topic(self, request: web.Request) -> web.Response:
        """All partitions by number; 404: no such topic."""
        topic, leaders = topic_in_path(request), self._services.partition_leaders
        with self._bound.held():
            found = await leaders.of_topic(topic)
        return responses.json(
            {
                "topic": topic,
                "topic_id": found[0].topic_id if found else "",
                "partitions": [_row(led) for led in found],
            }
        )


def _row(led: LedPartition) -> dict[str, Any]:
    """A partition; one without a state has epochs of -1 and an empty ISR."""
    state = led.state
    return {
        "partition": led.partition.partition,
        "leader": NO_LEADER if state is None else state.leader,
        "address": None if led.leader is None else led.leader.address,
        "leader_epoch": -1 if state is None else state.leader_epoch,
        "controller_epoch": -1 if state is None else state.controller_epoch,
        "isr": [] if state is None else state.isr,
        "replicas": led.replicas,
        "is_recovering": state is not None and state.is_recovering,
    }
