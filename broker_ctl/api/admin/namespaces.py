"""``/admin/v2/namespaces``: namespaces and their rings (docs: pulsar-hash, pulsar-admin-api)."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change, value_before
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.dry_runs import is_dry_run, report_dry_run, supports_dry_run
from broker_ctl.api.http.request_params import fields_in, flag, namespace_in, whole_number
from broker_ctl.api.http.responses import ApiError
from broker_ctl.core.model.field_kinds import NAMESPACE_POLICIES, REPLICATION_CLUSTERS
from broker_ctl.core.model.names import RING_HIGH, Namespace
from broker_ctl.core.model.namespace import Ring
from broker_ctl.errors import InvalidName, InvalidPolicy, TenantMissing

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
