"""``/admin/v2/namespaces/.../{bundle}``: unload, move, split and merge by hand."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.admin.namespaces import NAMESPACE
from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.access.authorization import operator_of
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.redirects import PROOF, redirect, redirect_to_broker, redirect_to_leader
from broker_ctl.api.http.request_params import (
    bundle_in,
    flag,
    is_dry_run,
    json_in,
    namespace_in,
    report_dry_run,
    supports_dry_run,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.lookup.lookup import Redirect
from broker_ctl.broker.ownership.ownership import Owner
from broker_ctl.core.model.names import RING_HIGH, Bundle, BundleRange, Namespace
from broker_ctl.core.strategies.splitting.algorithms import SPLITTING
from broker_ctl.core.strategies.splitting.candidates import SPECIAL_NAMES
from broker_ctl.errors import (
    BrokerCtlError,
    BundleGone,
    ForeignNamespace,
    HttpError,
    InvalidName,
    NotOwner,
    SettingsError,
)
from broker_ctl.peer_http import AddressSource

# Unloading the bundles of a namespace at their owners.


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
            except BrokerCtlError as error:
                failures.append(f"{bundle.range}: {error}")

    async def _at(self, owner: Owner, bundle: Bundle) -> None:
        path = f"/admin/v2/namespaces/{bundle.namespace}/{bundle.range}/unload"
        reply = await self._dependencies.peers.request("PUT", owner.urls, path, AddressSource.OWNER)
        # Redirected (307): that owner has released the bundle meanwhile.
        if reply.status not in {204, 307}:
            raise HttpError(f"{owner.urls.broker_id} answered {reply.status}")


# ``/admin/v2/namespaces/.../{bundle}``: unload, move, split and merge by hand.
#
# Docs: pulsar-admin-api. The owner of a bundle handles unload and split; other brokers redirect
# the request to it. The leader handles moves, because it reserves the destination; in Pulsar the
# destination is a hint that the next lookup may miss. The leader also handles requests for
# LARGEST and HOT, because only it knows which bundles they are. Requests for a namespace of
# another cluster are redirected to that cluster.


_SPECIFIED: Final = "specified_positions_divide"


class BundleRoutes:
    """Operators' requests for bundles.

    Attributes:
        split_algorithm: default algorithm of requests that name none; dynamic.
        split_algorithms: algorithms that a request may name; dynamic.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        split_algorithm: str,
        split_algorithms: tuple[str, ...] = tuple(SPLITTING.entries),
    ) -> None:
        self._dependencies = dependencies
        self._services = dependencies.services
        self._unloads = Unloads(dependencies)
        self.split_algorithm = split_algorithm
        self.split_algorithms = split_algorithms

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.put(f"{NAMESPACE}/unload", self.unload_all),
            web.put(f"{NAMESPACE}/{{bundle}}/unload", self.unload),
            web.put(f"{NAMESPACE}/{{bundle}}/split", self.split),
            web.put(f"{NAMESPACE}/{{bundle}}/merge", self.merge),
        ]

    @supports_dry_run
    async def unload(self, request: web.Request) -> web.Response:
        """204, even if no broker owns the bundle; 307 to the owner, or to the leader."""
        bundle = await bundle_in(request, self._services.namespaces)
        owner = await self._services.ownership.owner_of(bundle)
        # This broker unloads a bundle that it still owns, even if another cluster now serves the
        # namespace.
        if owner is None and (peer := await self._peer_of(request)) is not None:
            return peer
        destination = request.query.get("destinationBroker")
        if destination:
            return await self._move(request, bundle, destination)
        if is_dry_run(request):
            return report_dry_run(bundle=str(bundle), owner=owner and owner.urls.broker_id)
        if owner is not None and not owner.is_self:
            return redirect_to_broker(request, self._dependencies.cluster, owner.urls)
        if owner is not None:
            note_change(request, before={"owner": owner.urls.broker_id})
            await self._unloads.own(bundle)
        return responses.no_content()

    async def _move(self, request: web.Request, bundle: Bundle, destination: str) -> web.Response:
        cluster, admin = self._dependencies.cluster, self._dependencies.admin()
        if admin is None:
            return self._to_leader(request)
        broker_id = destination.removeprefix("http://").removeprefix("https://").rstrip("/")
        if cluster.urls_of(broker_id) is None:
            raise ApiError(409, f"{broker_id!r} is not a live broker", kind="NoBroker")
        is_dry = is_dry_run(request)
        owner = await self._services.ownership.owner_of(bundle)
        before = None if owner is None else {"owner": owner.urls.broker_id}
        note_change(request, before=before, after={"owner": broker_id})
        reply = await admin.move(bundle, broker_id, operator_of(request), is_dry_run=is_dry)
        return report_dry_run(**reply) if is_dry else responses.no_content()

    @supports_dry_run
    async def unload_all(self, request: web.Request) -> web.Response:
        """204 when all owners have unloaded the namespace's bundles; else 503 with the failures."""
        namespace = namespace_in(request)
        if not await self._lives_here(namespace) and not await self._unloads.owners(namespace):
            peer = await self._peer_of(request)
            return peer or responses.no_content()
        if is_dry_run(request):
            return report_dry_run(owners=await self._unloads.owners(namespace))
        before = {"owners": await self._unloads.owners(namespace)}
        note_change(request, before=before)
        await self._unloads.namespace(namespace)
        note_change(request, before=before, after={"owners": await self._unloads.owners(namespace)})
        return responses.no_content()

    @supports_dry_run
    async def split(self, request: web.Request) -> web.Response:
        """204, even if there is no boundary; a bundle without an owner is assigned first."""
        algorithm = self._algorithm_in(request)
        is_unloading = flag(request, "unload")
        authoritative, proof = flag(request, "authoritative"), request.query.get(PROOF, "")
        positions = _positions_in(await json_in(request))
        if algorithm == _SPECIFIED and not positions:
            raise InvalidName(f"{_SPECIFIED} needs a list of positions in the body")
        if (peer := await self._peer_of(request)) is not None:
            return peer
        is_special = request.match_info["bundle"] in SPECIAL_NAMES
        if not is_special:
            bundle = await bundle_in(request, self._services.namespaces)
        # The ring is one of the namespace's policies.
        await self._services.policies.flag.require_writable()
        if is_dry_run(request) and not is_special:
            return await self._dry_run_split(request, bundle, algorithm, positions)
        if is_special or is_unloading:
            return await self._split_by_leader(
                request, algorithm, positions, is_unloading=is_unloading
            )
        owner = await self._dependencies.lookup.find_bundle(
            bundle, authoritative=authoritative, proof=proof
        )
        if isinstance(owner, Redirect):
            return redirect_to_broker(
                request,
                self._dependencies.cluster,
                owner.urls,
                is_authoritative=owner.is_authoritative,
                proof=owner.proof,
            )
        ownership = self._services.ownership
        if owner.urls.broker_id != ownership.urls.broker_id:
            return redirect_to_broker(request, self._dependencies.cluster, owner.urls)
        before = _bundles(bundle)
        note_change(request, before=before)
        children = await ownership.split(bundle, algorithm, positions)
        note_change(request, before=before, after=_bundles(*children))
        return responses.no_content()

    async def _dry_run_split(
        self, request: web.Request, bundle: Bundle, algorithm: str, positions: tuple[int, ...]
    ) -> web.Response:
        """Return the boundaries that the owner would choose; unknown without an owner.

        Raises:
            ApiError: 409, there is no boundary; the message says why.
        """
        owner = await self._services.ownership.owner_of(bundle)
        if owner is None:
            return report_dry_run(bundle=str(bundle), owner=None, children=[])
        if not owner.is_self:
            return redirect_to_broker(request, self._dependencies.cluster, owner.urls)
        points, why = await self._dependencies.boundaries.find(bundle, algorithm, positions)
        if not points:
            raise ApiError(409, f"{bundle}: nothing to split: {why}", kind="NothingToSplit")
        children = [str(child) for child in bundle.cut(points)]
        return report_dry_run(bundle=str(bundle), owner=owner.urls.broker_id, children=children)

    def _algorithm_in(self, request: web.Request) -> str:
        """The short name of the requested split algorithm.

        Raises:
            SettingsError: there is no such algorithm, or it is not enabled in this cluster.
        """
        name = request.query.get("splitAlgorithmName") or self.split_algorithm
        short_name = name.rpartition(".")[2]
        if short_name not in self.split_algorithms:
            supported = ", ".join(self.split_algorithms)
            raise SettingsError(
                f"{short_name} is not in supportedNamespaceBundleSplitAlgorithms: {supported}"
            )
        return short_name

    async def _split_by_leader(
        self,
        request: web.Request,
        algorithm: str,
        positions: tuple[int, ...],
        *,
        is_unloading: bool,
    ) -> web.Response:
        admin, namespace = self._dependencies.admin(), namespace_in(request)
        if admin is None:
            return self._to_leader(request)
        name = request.match_info["bundle"]
        if name in SPECIAL_NAMES:
            await self._services.namespaces.ring(namespace)
            bundle = await admin.special_bundle(namespace, name)
            if is_dry_run(request):
                # Only its owner has details, for a request by range.
                return report_dry_run(bundle=str(bundle))
        else:
            bundle = Bundle(namespace, BundleRange.parse(name))
        before = _bundles(bundle)
        note_change(request, before=before)
        reply = await admin.split(
            bundle, algorithm, positions, operator_of(request), is_unloading=is_unloading
        )
        note_change(request, before=before, after={"bundles": reply.get("children")})
        return responses.no_content()

    @supports_dry_run
    async def merge(self, request: web.Request) -> web.Response:
        """204; ``with`` is the range of the other one, else it is the one that follows."""
        if (peer := await self._peer_of(request)) is not None:
            return peer
        bundle = await bundle_in(request, self._services.namespaces)
        ring = await self._services.namespaces.ring(bundle.namespace)
        wanted = request.query.get("with")
        if wanted:
            other = Bundle(bundle.namespace, BundleRange.parse(wanted))
        elif bundle.range.high == RING_HIGH:
            raise InvalidName(f"nothing follows {bundle}: name its neighbour in the parameter with")
        else:
            other = ring.find(bundle.range.high)
        if other not in ring:
            raise BundleGone(f"{other.range} is not a bundle of {bundle.namespace}")
        left, right = sorted((bundle, other))
        merged = left.joined(right)
        # The ring is one of the namespace's policies.
        await self._services.policies.flag.require_writable()
        admin = self._dependencies.admin()
        if admin is None:
            return self._to_leader(request)
        is_dry = is_dry_run(request)
        note_change(request, before=_bundles(left, right), after=_bundles(merged))
        reply = await admin.merge(left, right, operator_of(request), is_dry_run=is_dry)
        return report_dry_run(**reply) if is_dry else responses.no_content()

    async def _lives_here(self, namespace: Namespace) -> bool:
        try:
            return await self._dependencies.lookup.peer_cluster_of(namespace) is None
        except ForeignNamespace:
            return False

    async def _peer_of(self, request: web.Request) -> web.Response | None:
        """The same request to the peer cluster that the namespace lives in; None: it lives here.

        Raises:
            ForeignNamespace: it lives elsewhere, and not with a peer.
        """
        urls = await self._dependencies.lookup.peer_cluster_of(namespace_in(request))
        return None if urls is None else redirect(request, urls)

    def _to_leader(self, request: web.Request) -> web.Response:
        own_id = self._services.ownership.urls.broker_id
        return redirect_to_leader(request, self._dependencies.cluster, own_id)


def _bundles(*bundles: Bundle) -> dict[str, list[str]]:
    return {"bundles": [str(bundle) for bundle in bundles]}


def _positions_in(body: Any) -> tuple[int, ...]:
    """Parse the body of a split request: hashes at which to split."""
    if body is None:
        return ()
    if not isinstance(body, list):
        raise ApiError(400, "the body must be a list of positions")
    for position in body:
        is_number = isinstance(position, int) and not isinstance(position, bool)
        if not is_number or not 0 <= position <= RING_HIGH:
            raise InvalidName(f"a position is a whole number from 0 to {RING_HIGH}")
    return tuple(body)
