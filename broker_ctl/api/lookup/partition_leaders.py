"""``GET /partitions/v1/leader/...``: the leader of a replicated partition, for clients.

Any broker answers from its cache, also one without a brokerId; like lookups, without a token.
"""

from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.limits.requests import ConcurrencyLimit
from broker_ctl.api.http.partition_params import topic_in_path
from broker_ctl.broker.replicas.partition_leaders import LedPartition
from broker_ctl.core.partitions.values import NO_LEADER

_TOPIC: Final = "/partitions/v1/leader/{topic}"
# Ten digits hold every valid partition number.
_PARTITION: Final = f"{_TOPIC}/{{partition:[0-9]{{1,10}}}}"


class PartitionLeaderRoutes:
    """Serves the leader that a partition's clients connect to."""

    def __init__(self, dependencies: Dependencies, bound: ConcurrencyLimit) -> None:
        self._services = dependencies.services
        self._bound = bound

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get(_TOPIC, self.of_topic), web.get(_PARTITION, self.of_partition)]

    async def of_partition(self, request: web.Request) -> web.Response:
        """200; leader -1 or no address while there is no leader; 404: no such partition."""
        topic, number = topic_in_path(request), int(request.match_info["partition"])
        leaders = self._services.partition_leaders
        with self._bound.held():
            entry = await leaders.find(topic, number)
        return responses.json({"topic": topic, "topic_id": entry.topic_id, **_row(entry)})

    async def of_topic(self, request: web.Request) -> web.Response:
        """All partitions by number; 404: no such topic."""
        topic, leaders = topic_in_path(request), self._services.partition_leaders
        with self._bound.held():
            found = await leaders.of_topic(topic)
        return responses.json(
            {
                "topic": topic,
                "topic_id": found[0].topic_id if found else "",
                "partitions": [_row(entry) for entry in found],
            }
        )


def _row(entry: LedPartition) -> dict[str, Any]:
    """A partition; one without a state has epochs of -1 and an empty ISR."""
    state = entry.state
    return {
        "partition": entry.partition.partition,
        "leader": NO_LEADER if state is None else state.leader,
        "address": None if entry.leader is None else entry.leader.address,
        "leader_epoch": -1 if state is None else state.leader_epoch,
        "controller_epoch": -1 if state is None else state.controller_epoch,
        "isr": [] if state is None else state.isr,
        "replicas": entry.replicas,
        "is_recovering": state is not None and state.is_recovering,
    }
