"""The topics of this broker's bundles: the traffic of each, and closing one by hand.

The next client opens a closed topic again where it was: its bundle's owner stays.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import DataPlaneRefused, NotOwner, TopicMissing

log = logging.getLogger(__name__)


class Held(Protocol):
    """A bundle on this broker."""

    @property
    def state(self) -> str:
        """A `core.ownership.BundleState`."""
        ...


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """Current traffic by bundle and complete name; ``is_cut``: there may be more topics."""

    bundles: Mapping[Bundle, Mapping[str, BundleStats]]
    is_cut: bool


class OwnTopics:
    """What is loaded here.

    Args:
        owned: all that is held, in any state; changes under whoever awaits.
        dataplane: serves the topics.
    """

    def __init__(self, owned: Callable[[], Mapping[Bundle, Held]], dataplane: DataPlane) -> None:
        self._owned = owned
        self._dataplane = dataplane

    async def unload(self, bundle: Bundle, topic: Topic, *, is_dry_run: bool = False) -> None:
        """Close a topic of a bundle that is served here, or only look whether it is loaded.

        Raises:
            NotOwner: the bundle is not served here (any more).
            TopicMissing: the topic is not loaded.
            DataPlaneError: whether it was closed is unknown, or why it was not.
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
        log.info("%s was closed by order of an operator", name)

    async def names(self, namespace: Namespace) -> list[str]:
        """Complete names of a namespace's topics that are loaded here.

        Raises:
            DataPlaneError: the broker process does not answer, or cannot tell.
        """
        found: list[str] = []
        for bundle in sorted(self._owned()):
            if bundle.namespace == namespace and self._is_served(bundle):
                try:
                    found += await self._dataplane.topics(bundle)
                except DataPlaneRefused:
                    # Given up between the look at what is held and the question.
                    if self._is_served(bundle):
                        raise
                await asyncio.sleep(0)
        return found

    async def statistics(self, limit: int, namespace: Namespace | None = None) -> TopicTraffic:
        """The first ``limit`` topics in the order of bundles and names, of a namespace or of all.

        Raises:
            DataPlaneError: the broker process does not answer, or cannot tell.
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
            # The simulated one answers without giving anybody else a turn.
            await asyncio.sleep(0)
        return TopicTraffic(found, is_cut=False)

    async def _traffic(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        try:
            return await self._dataplane.topic_statistics(bundle)
        except DataPlaneRefused:
            if self._is_served(bundle):
                raise
            # Given up between the look at what is held and the question.
            return {}

    def _is_served(self, bundle: Bundle) -> bool:
        held = self._owned().get(bundle)
        return held is not None and held.state == BundleState.OWNED


def _not_loaded(name: str) -> TopicMissing:
    return TopicMissing(f"{name} is not loaded")
