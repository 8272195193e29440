"""All nodes of a topic that is deleted, taken away (docs: kafka-topic-deletion).

What is below goes first, many at a time; the topic's node, its configuration and the request to
delete it go in one transaction, so that a request without a topic has nothing more to ask for.
"""

from collections.abc import Callable, Sequence

from broker_ctl.controller.state.state_changes import StateChanger
from broker_ctl.controller.store.pipelining import READS, read_nodes
from broker_ctl.core.model.batches import batched
from broker_ctl.errors import MultiFailed, NoNode
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import Check, Delete, MetadataStore, Operation


class TopicNodes:
    """Takes them away."""

    def __init__(self, store: MetadataStore, state_changer: StateChanger) -> None:
        self._store = store
        self._state_changer = state_changer

    async def remove(self, name: str) -> None:
        """All of a topic, the request to delete it last of all.

        Without the request nothing is left to be done: it was, and the reply was lost. Whatever
        has the name by now is another topic, so that each transaction looks for the request.

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
        """What goes at once; whatever was written into it meanwhile goes with it."""
        paths = [partition_paths.topic(name), partition_paths.topic_configuration(name)]
        there = [path for path in paths if await self._store.exists(path) is not None]
        return [Delete(path) for path in (*there, partition_paths.deletion(name))]

    async def _remove_partitions(
        self, parent: str, state_below: Callable[[str], str], request: str
    ) -> None:
        """States first, then the nodes above them."""
        for batch in batched(await self._below(parent), READS):
            states = [state_below(path) for path in batch]
            found = await read_nodes(self._store, states)
            there = [path for path, node in zip(states, found, strict=True) if node is not None]
            await self._remove([*there, *batch], request)

    async def _below(self, path: str) -> list[str]:
        return [f"{path}/{name}" for name in await self._store.children(path)]

    async def _remove(self, paths: Sequence[str], request: str) -> None:
        """These nodes, in one transaction; whichever is gone already is none of it."""
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
