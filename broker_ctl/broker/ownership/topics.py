"""Topics of this broker's bundles: their traffic, and the unload of a single topic.

The next client opens an unloaded topic again on the same broker: the bundle keeps its owner.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from broker_ctl.broker.ownership.held_bundles import OwnedBundle
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import DataPlaneRefused, NotOwner, TopicMissing

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """Current traffic by bundle and complete topic name; ``is_cut``: the list is incomplete."""

    bundles: Mapping[Bundle, Mapping[str, BundleStats]]
    is_cut: bool


class OwnTopics:
    """The topics that are loaded on this broker.

    Args:
        owned: returns the bundles in all states; it may change during any await.
        dataplane: serves the topics.
    """

    def __init__(
        self, owned: Callable[[], Mapping[Bundle, OwnedBundle]], dataplane: DataPlane
    ) -> None:
        self._owned = owned
        self._dataplane = dataplane

    async def unload(self, bundle: Bundle, topic: Topic, *, is_dry_run: bool = False) -> None:
        """Unload a topic of a bundle that is served here; a dry run only checks that it is loaded.

        Raises:
            NotOwner: the bundle is not served here (any more).
            TopicMissing: the topic is not loaded.
            DataPlaneError: the topic was not closed, or it is unknown whether it was.
        """
        if not self._is_served(bundle):
            raise NotOwner(f"{bundle} is not served here")
        name = str(topic)
        if is_dry_run:
            if name not in await self._dataplane.topics(bundle):
                raise _not_loaded(name)
            return
        try:
            await self._dataplane.unload_topic(name)
        except DataPlaneRefused as met:
            if name in await self._dataplane.topics(bundle):
                raise
            raise _not_loaded(name) from met
        log.info("unloaded topic %s on request of an operator", name)

    async def names(self, namespace: Namespace) -> list[str]:
        """Complete names of the topics of a namespace that are loaded here.

        Raises:
            DataPlaneError: the broker process does not answer, or cannot list its topics.
        """
        found: list[str] = []
        for bundle in sorted(self._owned()):
            if bundle.namespace == namespace and self._is_served(bundle):
                try:
                    found += await self._dataplane.topics(bundle)
                except DataPlaneRefused:
                    # The bundle was released after the held bundles were listed.
                    if self._is_served(bundle):
                        raise
                await asyncio.sleep(0)
        return found

    async def statistics(self, limit: int, namespace: Namespace | None = None) -> TopicTraffic:
        """The first ``limit`` topics by bundle and name, of one namespace or of all.

        Raises:
            DataPlaneError: the broker process does not answer, or cannot list its topics.
        """
        found: dict[Bundle, Mapping[str, BundleStats]] = {}
        room = limit
        for bundle in sorted(self._owned()):
            if not self._is_served(bundle) or namespace not in {None, bundle.namespace}:
                continue
            if not room:
                return TopicTraffic(found, is_cut=True)
            lines = await self._traffic(bundle)
            found[bundle] = dict(islice(sorted(lines.items()), room))
            if len(lines) > room:
                return TopicTraffic(found, is_cut=True)
            room -= len(lines)
            # The simulated data plane answers without yielding to the event loop.
            await asyncio.sleep(0)
        return TopicTraffic(found, is_cut=False)

    async def _traffic(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        try:
            return await self._dataplane.topic_statistics(bundle)
        except DataPlaneRefused:
            if self._is_served(bundle):
                raise
            # The bundle was released after the held bundles were listed.
            return {}

    def _is_served(self, bundle: Bundle) -> bool:
        held = self._owned().get(bundle)
        return held is not None and held.state == BundleState.OWNED


def _not_loaded(name: str) -> TopicMissing:
    return TopicMissing(f"{name} is not loaded")
