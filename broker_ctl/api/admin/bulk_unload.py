"""Unloading the bundles of a namespace at their owners."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.ownership.ownership import Owner
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import Namespace
from broker_ctl.errors import BrokerCtlError, HttpError, NotOwner
from broker_ctl.peer_http import Source

_UNLOADS_IN_FLIGHT: Final = 8


class Unloads:
    """Unloads of bundles for operators, and for changed isolation policies."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._services = dependencies.services

    async def own(self, bundle: Bundle) -> None:
        """Unload a bundle of this broker."""
        try:
            await self._services.ownership.unload(bundle)
        except NotOwner:
            # It was released between the check and the unload, which is the wanted result.
            return

    async def owners(self, namespace: Namespace) -> dict[str, int]:
        """Return the number of the namespace's bundles at each broker.

        Raises:
            NamespaceMissing: there is no such namespace.
        """
        counts: Counter[str] = Counter()
        for bundle in (await self._services.namespaces.ring(namespace)).bundles:
            owner = await self._services.ownership.owner_of(bundle)
            if owner is not None:
                counts[owner.urls.broker_id] += 1
        return dict(counts)

    async def namespace(
        self, namespace: Namespace, is_wanted: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Unload the bundles of brokers whose id ``is_wanted``; continues after a failure.

        Raises:
            NamespaceMissing: there is no such namespace.
            ApiError: 503, some bundles could not be unloaded; the others were.
        """
        waiting = iter((await self._services.namespaces.ring(namespace)).bundles)
        failures: list[str] = []
        async with asyncio.TaskGroup() as group:
            for number in range(_UNLOADS_IN_FLIGHT):
                work = self._each(waiting, is_wanted, failures)
                group.create_task(work, name=f"unload namespace {number}")
        if failures:
            reason = f"{len(failures)} bundles could not be unloaded, first {failures[0]}"
            raise ApiError(503, reason, kind="UnloadFailed")

    async def _each(
        self, waiting: Iterator[Bundle], is_wanted: Callable[[str], bool], failures: list[str]
    ) -> None:
        for bundle in waiting:
            try:
                owner = await self._services.ownership.owner_of(bundle)
                if owner is None or not is_wanted(owner.urls.broker_id):
                    continue
                if owner.is_self:
                    await self.own(bundle)
                else:
                    await self._at(owner, bundle)
            except BrokerCtlError as met:
                failures.append(f"{bundle.range}: {met}")

    async def _at(self, owner: Owner, bundle: Bundle) -> None:
        path = f"/admin/v2/namespaces/{bundle.namespace}/{bundle.range}/unload"
        reply = await self._dependencies.peers.request("PUT", owner.urls, path, Source.OWNER)
        # Redirected (307): that owner has released the bundle meanwhile.
        if reply.status not in {204, 307}:
            raise HttpError(f"{owner.urls.broker_id} answered {reply.status}")
