"""Deletion of topics (docs: kafka-topic-deletion).

    request -> forget the topic -> stop its replicas -> delete its nodes -> delete the request

Once the deletion is requested, brokers only get stops for the topic (KAFKA-13342): the context
forgets it, so that no election and no full instruction names it. Progress is not stored: the next
controller sends all stops again.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from broker_ctl.controller.procedures.procedure import Alarm, ControllerContext, make_parents
from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.fenced_writer import ends_term
from broker_ctl.controller.store.loader import READS, read_nodes
from broker_ctl.controller.transport.messages import StopResponse
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.deleting import Deletion, Stops
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.values import (
    BrokersChanged,
    ReplicaStage,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.errors import InvalidName, MultiFailed, NodeExists, NoNode, StoreError
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import Check, Create, Delete, MetadataStore, Operation, SetData
from broker_ctl.store.records.partitions import DELETION_REQUEST, decode_topic, encode_topic

log = logging.getLogger(__name__)

# Interval at which failed stops are sent again, and silent brokers are given up.
_RETRY_S: Final = 1.0


@dataclass(slots=True)
class _Ending:
    """A topic that is being deleted.

    Attributes:
        topic: its node as of the request.
        again: replicas whose stop is to be sent again.
    """

    topic: TopicAssignment
    deletion: Deletion
    leader_epochs: Mapping[TopicPartition, int]
    retry: Stops = field(default_factory=dict)


class TopicDeletions:
    """`Procedure`: the topics being deleted in one term."""

    def __init__(self, controller: ControllerContext) -> None:
        self._store = controller.store
        self._context = controller.context
        self._state_changer = controller.state_changer
        self._nodes = _TopicNodes(controller.store, controller.state_changer)
        self._alarm = Alarm(controller, "deletions", self._retry)
        self._ending: dict[str, _Ending] = {}

    async def resume(self) -> None:
        """See `Procedure`."""
        await self.on_requests_changed()

    async def on_requests_changed(self) -> None:
        """See `Procedure`."""
        for name in await self._store.children(partition_paths.DELETIONS):
            try:
                if name not in self._ending and await self._is_requested(name):
                    await self._begin(name)
            except (StoreError, InvalidName) as error:
                self._log_failure(name, error)

    async def on_brokers_changed(self, changed: BrokersChanged) -> None:
        """See `Procedure`: a broker that returns removes its replica as a stray."""
        await self._lost(changed.dead | changed.bounced)

    async def on_topics_changed(self, topics: Collection[str]) -> None:
        """See `Procedure`: a topic that is being deleted does not grow (KAFKA-6612)."""
        for name in sorted(self._ending.keys() & topics):
            try:
                await self._restore(name, self._ending[name])
            except StoreError as error:
                self._log_failure(name, error)

    async def on_states_changed(self, partitions: Collection[TopicPartition]) -> None:
        """See `Procedure`: does nothing."""

    async def on_stop_responses(self, answers: Sequence[StopResponse]) -> None:
        """See `Procedure`."""
        for broker_id, stop, reason in answers:
            ending = self._ending.get(stop.partition.topic)
            if ending is None or ending.topic.topic_id != stop.topic_id:
                continue
            if ending.deletion.answered(broker_id, stop.partition, reason):
                ending.retry.setdefault(broker_id, []).append(stop.partition)
        await self._finish_complete()

    async def request(self, name: str) -> None:
        """Write a request, and start it."""
        path = partition_paths.deletion(name)
        await make_parents(self._store, self._state_changer, path)
        try:
            await self._state_changer.write([Create(path, DELETION_REQUEST)])
        except MultiFailed as error:
            if not isinstance(error.cause, NodeExists):
                raise
            # The one that exists may not have counted, if it is not signed.
            if not await self._is_requested(name):
                await self._state_changer.write([SetData(path, DELETION_REQUEST)])
        await self.on_requests_changed()

    async def _is_requested(self, name: str) -> bool:
        """Whether the request exists, and counts."""
        return await self._store.get(partition_paths.deletion(name)) is not None

    def rows(self) -> list[dict[str, Any]]:
        """Topics being deleted, as plain JSON values."""
        return [
            {
                "topic": name,
                "topic_id": ending.topic.topic_id,
                "partitions": len(ending.topic.partitions),
                "waiting": ending.deletion.count(ReplicaStage.DELETION_STARTED),
                "ineligible": ending.deletion.count(ReplicaStage.DELETION_INELIGIBLE),
            }
            for name, ending in sorted(self._ending.items())
        ]

    # Start.

    async def _begin(self, name: str) -> None:
        context = self._context
        node = await self._store.get(partition_paths.topic(name))
        if node is None:
            log.info("topic %s does not exist: deleting the request to delete it", name)
            await self._state_changer.write([Delete(partition_paths.deletion(name))])
            return
        topic = decode_topic(node)
        replicas = {
            TopicPartition(name, number): assignment.replicas
            for number, assignment in topic.partitions.items()
        }
        epochs = {
            each: context.states[each].leader_epoch for each in replicas if each in context.states
        }
        ending = _Ending(topic, Deletion(topic.topic_id, replicas), epochs)
        ending.retry = ending.deletion.begin(context.brokers)
        self._ending[name] = ending
        context.forget_topic(name)
        context.deleting.add(name)
        log.info("topic %s (%s): deleting %d partitions", name, topic.topic_id, len(replicas))
        self._alarm.set(_RETRY_S)
        await self._request_stops(ending)
        await self._finish_complete()

    async def _request_stops(self, ending: _Ending) -> None:
        """Send stops to replicas that have not got one, or that failed to stop."""
        requested, ending.retry = ending.retry, {}
        topic_id, epochs = ending.topic.topic_id, ending.leader_epochs
        try:
            await self._state_changer.stop_replicas(
                {
                    broker_id: [
                        ReplicaStop(each, topic_id, epochs.get(each, 0), is_deleted=True)
                        for each in partitions
                    ]
                    for broker_id, partitions in requested.items()
                }
            )
        except StoreError:
            ending.retry = requested
            raise

    async def _restore(self, name: str, ending: _Ending) -> None:
        """Remove partitions that were added since the request."""
        node = await self._store.get(partition_paths.topic(name))
        if node is None:
            return
        if decode_topic(node).partitions != ending.topic.partitions:
            log.warning("topic %s is being deleted: removing partitions that were added", name)
            operation = SetData(node.path, encode_topic(ending.topic), node.stat.version)
            await self._state_changer.write([operation])

    # Progress.

    async def _lost(self, brokers: Collection[int]) -> None:
        for ending in self._ending.values():
            ending.deletion.lost(brokers)
        await self._finish_complete()

    async def _retry(self) -> None:
        """Send failed stops again, and give up replicas whose brokers do not answer."""
        if self._ending:
            # Set before anything that may fail: nothing else would set it.
            self._alarm.set(_RETRY_S)
        await self.on_requests_changed()
        for name, ending in list(self._ending.items()):
            try:
                await self._request_stops(ending)
            except StoreError as error:
                self._log_failure(name, error)
        await self._lost(self._context.silent)

    # End.

    async def _finish_complete(self) -> None:
        for name, ending in list(self._ending.items()):
            if not ending.deletion.is_complete:
                continue
            try:
                await self._finish(name, ending)
            except StoreError as error:
                self._log_failure(name, error)

    async def _finish(self, name: str, ending: _Ending) -> None:
        """Delete its nodes, the request last."""
        await self._nodes.remove(name)
        del self._ending[name]
        self._context.deleting.discard(name)
        left = ending.deletion.count(ReplicaStage.DELETION_INELIGIBLE)
        topic_id = ending.topic.topic_id
        log.info("topic %s (%s) is deleted; %d replicas did not answer", name, topic_id, left)

    def _log_failure(self, name: str, error: StoreError | InvalidName) -> None:
        """Log it; a deletion that fails does not stop the others, and is retried."""
        if ends_term(error):
            raise error
        log.warning("topic %s cannot be deleted yet: %s; retrying", name, error)
        if error.can_retry:
            self._alarm.set(_RETRY_S)


class _TopicNodes:
    """Deletes all nodes of a topic.

    Nodes below the topic are deleted first, many at a time. The topic's node, its configuration and
    the request are deleted in one transaction, so that no request remains without its topic.
    """

    def __init__(self, store: MetadataStore, state_changer: StateChanger) -> None:
        self._store = store
        self._state_changer = state_changer

    async def remove(self, name: str) -> None:
        """Delete all nodes of a topic, the request last.

        Without the request there is nothing to do: the deletion succeeded, and its reply was lost.
        A node of that name now belongs to another topic, so each transaction checks that the
        request exists.

        Raises:
            MultiFailed: another client has created a node below it meanwhile.
        """
        request = partition_paths.deletion(name)
        if await self._store.exists(request) is None:
            return
        kafkas, ours = partition_paths.kafka_partitions(name), partition_paths.topic(name)
        await self._remove_partitions(kafkas, partition_paths.kafka_state_below, request)
        await self._remove_partitions(ours, partition_paths.state_below, request)
        requests = partition_paths.reassigned_topic(name)
        for batch in batched(await self._below(requests), READS):
            await self._remove(batch, request)
        await self._remove([requests], request)
        await self._state_changer.write(await self._last(name))

    async def _last(self, name: str) -> list[Operation]:
        """Operations of the last transaction; they also delete what others wrote meanwhile."""
        paths = [partition_paths.topic(name), partition_paths.topic_configuration(name)]
        there = [path for path in paths if await self._store.exists(path) is not None]
        return [Delete(path) for path in (*there, partition_paths.deletion(name))]

    async def _remove_partitions(
        self, parent: str, state_below: Callable[[str], str], request: str
    ) -> None:
        """Delete the states, then their parents."""
        for batch in batched(await self._below(parent), READS):
            states = [state_below(path) for path in batch]
            found = await read_nodes(self._store, states)
            there = [path for path, node in zip(states, found, strict=True) if node is not None]
            await self._remove([*there, *batch], request)

    async def _below(self, path: str) -> list[str]:
        return [f"{path}/{name}" for name in await self._store.children(path)]

    async def _remove(self, paths: Sequence[str], request: str) -> None:
        """Delete these nodes in one transaction, without those that are gone already."""
        left = list(paths)
        while left:
            try:
                await self._state_changer.write([Check(request), *map(Delete, left)])
            except MultiFailed as error:
                if not isinstance(error.cause, NoNode) or error.path == request:
                    raise
                left.remove(error.path)
            else:
                return
