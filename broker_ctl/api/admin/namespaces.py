"""``/admin/v2/namespaces``: namespaces, their rings, groups and clusters (docs: pulsar-hash)."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change, value_before
from broker_ctl.api.http.bodies import read_bounded
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.request_params import (
    fields_in,
    flag,
    is_dry_run,
    json_in,
    namespace_in,
    report_dry_run,
    supports_dry_run,
    texts_in,
    whole_number,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.policies.constraints import AntiAffinity
from broker_ctl.broker.policies.policies import NamespacePolicies
from broker_ctl.core.model.field_kinds import NAMESPACE_POLICIES, REPLICATION_CLUSTERS
from broker_ctl.core.model.names import RING_HIGH, Namespace, Ring
from broker_ctl.errors import InvalidName, InvalidPolicy, TenantMissing

# ``/admin/v2/namespaces``: namespaces and their rings (docs: pulsar-hash, pulsar-admin-api).


_TENANT: Final = "/admin/v2/namespaces/{tenant}"
NAMESPACE: Final = f"{_TENANT}/{{namespace}}"
# Pulsar accepts up to 2^32; a ring of that size does not fit into a znode.
MAX_BUNDLES: Final = 65_536
_AUDITED: Final = (REPLICATION_CLUSTERS, "auth_policies")


class NamespaceRoutes:
    """Create, show, delete."""

    def __init__(self, dependencies: Dependencies, cluster: str) -> None:
        self._namespaces = dependencies.services.namespaces
        self._policies = dependencies.services.policies
        self._configuration = dependencies.services.configuration
        self._cluster = cluster

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_TENANT, self.of_tenant),
            web.put(NAMESPACE, self.create),
            web.get(NAMESPACE, self.policies),
            web.delete(NAMESPACE, self.delete),
            web.get(f"{NAMESPACE}/bundles", self.bundles),
        ]

    async def of_tenant(self, request: web.Request) -> web.Response:
        """Names of a tenant's namespaces; 404 if the tenant does not exist."""
        tenant = request.match_info["tenant"]
        namespaces = await self._namespaces.of_tenant(tenant)
        if not namespaces and tenant not in await self._policies.tenants.names():
            raise TenantMissing(f"Tenant not found: {tenant}")
        return responses.json(sorted(map(str, namespaces)))

    @supports_dry_run
    async def create(self, request: web.Request) -> web.Response:
        """204; the body has the policies, of which only the ring and the clusters are validated.

        The other policies are stored for the broker processes. 404 if the tenant does not exist;
        403 for a cluster that the tenant may not use, and while policies are read-only.
        """
        namespace = namespace_in(request)
        policies = await fields_in(request, NAMESPACE_POLICIES)
        bundles, boundaries = _ring_in(policies.pop("bundles", None))
        if not bundles and not boundaries:
            bundles = self._configuration.current().splitting.default_bundles
        if policies.get("deleted"):
            raise InvalidPolicy("deleted: a namespace that is created is not being deleted")
        await self._policies.flag.require_writable()
        clusters = policies.get(REPLICATION_CLUSTERS) or [self._cluster]
        await self._policies.tenants.require_allowed(namespace.tenant, clusters)
        is_dry = is_dry_run(request)
        stored = {**policies, REPLICATION_CLUSTERS: clusters}
        note_change(request, after={"bundles": bundles or len(boundaries) - 1, **_shown(stored)})
        ring = await self._namespaces.create(
            namespace,
            bundles=bundles,
            boundaries=boundaries,
            policies=stored,
            is_dry_run=is_dry,
        )
        return report_dry_run(bundles=len(ring.bundles)) if is_dry else responses.no_content()

    async def policies(self, request: web.Request) -> web.Response:
        """The stored policies, with the ring in the local policies of this cluster."""
        namespace = namespace_in(request)
        ring = await self._namespaces.ring(namespace)
        stored = await self._policies.namespaces.find(namespace)
        return responses.json({"bundles": _bundles_data(ring), **stored.others})

    @supports_dry_run
    async def delete(self, request: web.Request) -> web.Response:
        """204; 409 while a broker owns a bundle of the namespace; 405 for a forced deletion."""
        namespace = namespace_in(request)
        if flag(request, "force"):
            reason = "Broker doesn't allow forced deletion of namespaces: unload it first"
            raise ApiError(405, reason, kind="NotAllowed")
        await self._policies.flag.require_writable()
        is_dry = is_dry_run(request)
        note_change(request, before=await self._before(namespace))
        await self._namespaces.delete(namespace, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    async def _before(self, namespace: Namespace) -> dict[str, Any] | None:
        ring = await value_before(self._namespaces.ring(namespace))
        stored = await value_before(self._policies.namespaces.find(namespace))
        if ring is None or stored is None:
            return None
        return {"bundles": len(ring.bundles), **_shown(stored.others)}

    async def bundles(self, request: web.Request) -> web.Response:
        """The ring."""
        return responses.json(_bundles_data(await self._namespaces.ring(namespace_in(request))))


def _shown(policies: Mapping[str, Any]) -> dict[str, Any]:
    """What the audit log has of policies: others, such as of offloading, may hold credentials."""
    shown = {name: policies[name] for name in _AUDITED if policies.get(name)}
    return {**shown, "policies": sorted(policies)}


def _bundles_data(ring: Ring) -> dict[str, Any]:
    boundaries = [f"0x{point:08x}" for point in ring.boundaries]
    return {"boundaries": boundaries, "numBundles": len(ring.bundles)}


def _ring_in(bundles: Any) -> tuple[int | None, tuple[int, ...]]:
    """Return the number of bundles and the boundaries in the body; boundaries take precedence.

    A number of 0 counts as absent, as in Pulsar.

    Raises:
        ApiError: 400, the body has another form.
        InvalidName: there are too many bundles, or a boundary is not a hash.
    """
    if bundles is None:
        return None, ()
    if not isinstance(bundles, dict):
        raise ApiError(400, "bundles must be an object with numBundles or boundaries")
    given, texts = bundles.get("numBundles"), bundles.get("boundaries")
    number = whole_number(given)
    if number is None and given is not None:
        raise ApiError(400, "numBundles must be a whole number")
    if texts is not None and not isinstance(texts, list):
        raise ApiError(400, "boundaries must be a list")
    count = len(texts) - 1 if texts else number or None
    if count is not None and not 0 < count <= MAX_BUNDLES:
        raise InvalidName(f"a namespace has 1 to {MAX_BUNDLES} bundles")
    return number, tuple(map(_boundary, texts or ()))


def _boundary(text: object) -> int:
    try:
        point = int(str(text), 16)
    except ValueError:
        point = -1
    if not isinstance(text, str) or not 0 <= point <= RING_HIGH:
        raise InvalidName("a boundary is a text from 0x00000000 to 0xffffffff")
    return point


# ``/admin/v2/namespaces/.../antiAffinity``: anti-affinity groups of namespaces.
#
# Docs: pulsar-isolation, pulsar-admin-api.


_GROUP: Final = f"{NAMESPACE}/antiAffinity"
_JSON: Final = "application/json"


class AntiAffinityRoutes:
    """The group of a namespace, and the namespaces of a group.

    A group is sent and returned as plain text, as in Pulsar's server and Java client, regardless of
    the Content-Type. A JSON string, which other clients send, is accepted too.
    """

    def __init__(self, groups: AntiAffinity, cluster_name: str) -> None:
        self._groups = groups
        self._cluster_name = cluster_name

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_GROUP, self.group),
            web.post(_GROUP, self.set_group),
            web.delete(_GROUP, self.clear),
            web.get("/admin/v2/namespaces/{cluster}/antiAffinity/{group}", self.members),
            # The route that Pulsar's Java client uses before release 4.2.
            web.get("/admin/namespaces/{cluster}/antiAffinity/{group}", self.members),
        ]

    async def group(self, request: web.Request) -> web.Response:
        """The namespace's group; 204 if the namespace is in none."""
        group = await self._groups.group_of(namespace_in(request))
        return responses.no_content() if group is None else responses.text(group)

    @supports_dry_run
    async def set_group(self, request: web.Request) -> web.Response:
        """204; 412 for an invalid group name."""
        return await self._set(request, await _group_in(request))

    @supports_dry_run
    async def clear(self, request: web.Request) -> web.Response:
        """204, even if the namespace was in no group."""
        return await self._set(request, None)

    async def _set(self, request: web.Request, group: str | None) -> web.Response:
        namespace, is_dry = namespace_in(request), is_dry_run(request)
        before = await value_before(self._groups.group_of(namespace))
        note_change(request, before=before, after=group)
        await self._groups.set(namespace, group, is_dry_run=is_dry)
        if not is_dry:
            return responses.no_content()
        return report_dry_run(group=await self._groups.group_of(namespace))

    async def members(self, request: web.Request) -> web.Response:
        """Namespaces of the group in ``tenant``; 404 for another cluster."""
        if request.match_info["cluster"] != self._cluster_name:
            raise ApiError(404, f"this is cluster {self._cluster_name}", kind="NoCluster")
        tenant = request.query.get("tenant") or request.query.get("property")
        if not tenant:
            raise InvalidName("tenant: give the tenant of the namespaces with ?tenant=NAME")
        found = await self._groups.members(tenant, request.match_info["group"])
        return responses.json([str(namespace) for namespace in found])


async def _group_in(request: web.Request) -> str:
    """The body, a JSON string or bare text.

    Raises:
        ApiError: 400, another Content-Type. InvalidName: the bytes are not UTF-8.
    """
    if request.content_type != _JSON:
        raise ApiError(400, f"Content-Type must be {_JSON}")
    try:
        value = await json_in(request)
    except ApiError as error:
        if error.status != 400:
            raise
        value = None
    if isinstance(value, str):
        return value
    try:
        return (await read_bounded(request)).decode().strip()
    except UnicodeDecodeError:
        raise InvalidName("the body is not UTF-8 text") from None


# Replication clusters and permissions of a namespace.
#
# Docs: pulsar-http-lookup, pulsar-admin-api.


_REPLICATION: Final = f"{NAMESPACE}/replication"


class ReplicationRoutes:
    """Policies of a namespace with routes of their own."""

    def __init__(self, policies: NamespacePolicies) -> None:
        self._policies = policies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_REPLICATION, self.clusters),
            web.post(_REPLICATION, self.set_clusters),
            web.get(f"{NAMESPACE}/permissions", self.permissions),
        ]

    async def clusters(self, request: web.Request) -> web.Response:
        """The stored clusters; empty if an earlier release created the namespace."""
        found = await self._policies.find(namespace_in(request))
        return responses.json(found.replication_clusters)

    @supports_dry_run
    async def set_clusters(self, request: web.Request) -> web.Response:
        """204; 403 for a cluster that is unknown or not the tenant's; 409 for peer clusters."""
        namespace = namespace_in(request)
        names = await texts_in(request, "cluster names")
        is_dry = is_dry_run(request)
        stored = await value_before(self._policies.find(namespace))
        before = None if stored is None else list(stored.replication_clusters)
        note_change(request, before=before, after=names)
        await self._policies.set_replication_clusters(namespace, names, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    async def permissions(self, request: web.Request) -> web.Response:
        """The stored permissions of roles; for lookups they count with authorizationEnabled."""
        return responses.json(await self._policies.permissions(namespace_in(request)))
