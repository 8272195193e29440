"""``/admin/v2/namespaces/.../{bundle}``: unload, move and split by hand (reference: 8.4).

These verbs belong to the bundle's owner: any other broker sends the request on to it. A move goes
to the leader, which reserves the destination: in Pulsar that is a hint which the next lookup may
miss, here it is part of the handover.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from aiohttp import web

from broker_ctl.core.bundle import Bundle
from broker_ctl.core.hashing import RING_HIGH
from broker_ctl.core.splitting.catalog import SPLITTING
from broker_ctl.errors import BrokerCtlError, HttpError, InvalidName, NotOwner
from broker_ctl.managers.lookup import Redirect
from broker_ctl.surface import answers
from broker_ctl.surface.admin_namespaces import NAMESPACE
from broker_ctl.surface.answers import Refusal
from broker_ctl.surface.parts import Owner, Parts
from broker_ctl.surface.questions import bundle_in, flag, json_in, namespace_in
from broker_ctl.surface.redirects import redirect, redirect_to_leader

_UNLOADS_IN_FLIGHT: Final = 8
_SPECIFIED: Final = "specified_positions_divide"


class BundleRoutes:
    """What an operator does to bundles."""

    def __init__(self, parts: Parts, split_algorithm: str) -> None:
        self._parts = parts
        self._split_algorithm = split_algorithm

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.put(f"{NAMESPACE}/unload", self.unload_all),
            web.put(f"{NAMESPACE}/{{bundle}}/unload", self.unload),
            web.put(f"{NAMESPACE}/{{bundle}}/split", self.split),
        ]

    async def unload(self, request: web.Request) -> web.Response:
        """204, also where nobody owns the bundle; 307 to the owner, or to the leader."""
        bundle = await bundle_in(request, self._parts.namespaces)
        destination = request.query.get("destinationBroker")
        if destination:
            return await self._move(request, bundle, destination)
        owner = await self._parts.ownership.owner_of(bundle)
        if owner is not None and not owner.is_self:
            return redirect(request, owner.urls)
        if owner is not None:
            await self._unload_own(bundle)
        return answers.no_content()

    async def _unload_own(self, bundle: Bundle) -> None:
        try:
            await self._parts.ownership.unload(bundle)
        except NotOwner:
            # It was given up between the question and the act: that is what was wanted.
            return

    async def _move(self, request: web.Request, bundle: Bundle, destination: str) -> web.Response:
        cluster, desk = self._parts.cluster, self._parts.desk()
        if desk is None:
            return redirect_to_leader(request, cluster, self._parts.ownership.urls.broker_id)
        broker_id = destination.removeprefix("http://").removeprefix("https://").rstrip("/")
        if cluster.urls_of(broker_id) is None:
            raise Refusal(409, f"{broker_id!r} is no live broker", kind="NoBroker")
        await desk.move(bundle, broker_id)
        return answers.no_content()

    async def unload_all(self, request: web.Request) -> web.Response:
        """204 when each owner gave its bundles of the namespace up; else 503 with what is left."""
        waiting = iter((await self._parts.namespaces.ring(namespace_in(request))).bundles)
        failures: list[str] = []
        async with asyncio.TaskGroup() as group:
            for number in range(_UNLOADS_IN_FLIGHT):
                work = self._unload_each(waiting, failures)
                group.create_task(work, name=f"unload namespace {number}")
        if failures:
            reason = f"{len(failures)} bundles could not be unloaded, first {failures[0]}"
            raise Refusal(503, reason, kind="UnloadFailed")
        return answers.no_content()

    async def _unload_each(self, waiting: Iterator[Bundle], failures: list[str]) -> None:
        for bundle in waiting:
            try:
                owner = await self._parts.ownership.owner_of(bundle)
                if owner is None:
                    continue
                if owner.is_self:
                    await self._unload_own(bundle)
                else:
                    await self._unload_at(owner, bundle)
            except BrokerCtlError as met:
                failures.append(f"{bundle.range}: {met}")

    async def _unload_at(self, owner: Owner, bundle: Bundle) -> None:
        url = owner.urls.web_url or owner.urls.web_url_tls
        if not url:
            raise HttpError(f"{owner.urls.broker_id} has no web address")
        path = f"/admin/v2/namespaces/{bundle.namespace}/{bundle.range}/unload"
        reply = await self._parts.peers.request("PUT", url.rstrip("/") + path)
        # Sent on (307): the owner that was asked has given it up meanwhile.
        if reply.status not in {204, 307}:
            raise HttpError(f"{owner.urls.broker_id} answered {reply.status}")

    async def split(self, request: web.Request) -> web.Response:
        """204, also where there is nothing to split; an unowned bundle is assigned first."""
        algorithm = request.query.get("splitAlgorithmName") or self._split_algorithm
        SPLITTING.find(algorithm)
        wants_unload = flag(request, "unload")
        authoritative = flag(request, "authoritative")
        positions = _positions_in(await json_in(request))
        if algorithm == _SPECIFIED and not positions:
            raise InvalidName(f"{_SPECIFIED} needs a list of positions in the body")
        bundle = await bundle_in(request, self._parts.namespaces)
        owner = await self._parts.lookup.find_bundle(bundle, authoritative=authoritative)
        if isinstance(owner, Redirect):
            return redirect(request, owner.urls, is_authoritative=owner.is_authoritative)
        ownership = self._parts.ownership
        if owner.urls.broker_id != ownership.urls.broker_id:
            return redirect(request, owner.urls)
        children = await ownership.split(bundle, algorithm, positions)
        for child in children if wants_unload else ():
            await self._unload_own(child)
        return answers.no_content()


def _positions_in(body: Any) -> tuple[int, ...]:
    """The body of a split: hashes at which to cut."""
    if body is None:
        return ()
    if not isinstance(body, list):
        raise Refusal(400, "the body must be a list of positions")
    for position in body:
        is_number = isinstance(position, int) and not isinstance(position, bool)
        if not is_number or not 0 <= position <= RING_HIGH:
            raise InvalidName(f"a position is a whole number from 0 to {RING_HIGH}")
    return tuple(body)
