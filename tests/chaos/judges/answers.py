"""I6, its second half: when all is calm, what every broker answers is what stands in the store."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from broker_ctl.core.model.names import Topic
from broker_ctl.store import paths
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from tests.chaos.clients.traffic import one_topic_a_slice
from tests.chaos.cluster.cluster import Broker, Cluster
from tests.chaos.cluster.topics import NAMESPACE
from tests.support.daemon.running_daemons import look_up
from tests.support.time.waiting import eventually

# The last moves of the traffic may just end.
_CALM_S: Final = 5.0


async def wrong_answers(cluster: Cluster) -> AsyncIterator[str]:
    """What each broker says of each bundle, where it is not so."""
    for broker in cluster.brokers:
        for topic in one_topic_a_slice():
            what = f"{broker.id} knows the owner of {topic}"
            try:
                await eventually(partial(_is_right, cluster, broker, topic), _CALM_S, what)
            except AssertionError as error:
                yield f"I6: {error}"


async def _is_right(cluster: Cluster, broker: Broker, topic: Topic) -> bool:
    said = await look_up(cluster.http, broker.daemon, topic)
    return bool(said) and said["brokerId"] == await _owner(cluster, topic)


async def _owner(cluster: Cluster, topic: Topic) -> str | None:
    root = paths.ownership_of(NAMESPACE)
    await cluster.observer.sync(root)
    for name in await cluster.observer.children(root):
        bundle = paths.owned_bundle(f"{root}/{name}")
        if bundle is not None and topic.ring_hash in bundle.range:
            node = await cluster.observer.get(f"{root}/{name}")
            if node is not None:
                return NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id
    return None
