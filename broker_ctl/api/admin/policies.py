"""``/admin/v2/clusters/...``: isolation policies, failure domains, and their brokers."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from broker_ctl.api.admin.bundles import Unloads
from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change, value_before
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.request_params import (
    is_dry_run,
    object_in,
    report_dry_run,
    supports_dry_run,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.policies.constraints import allows, parse_policy, require_short_broker
from broker_ctl.core.model.broker import Constraints, IsolationPolicy, host_of
from broker_ctl.core.model.names import Namespace
from broker_ctl.core.model.regular_expressions import is_match
from broker_ctl.errors import NamespaceMissing, PolicyMissing

# Which isolation policies match a broker, one pattern in each iteration of the event loop.
#
# A match may take a tenth of a second (`safe_regex`), a policy has many patterns, and a client
# chooses the id of a broker that is not alive. So one request at a time is answered, and
# heartbeats and other requests have their turns between two matches.


class PolicyMatches:
    """Matches of all requests of a server."""

    def __init__(self) -> None:
        self._matching = asyncio.Lock()

    async def row_of(self, constraints: Constraints, broker_id: str) -> dict[str, Any]:
        """Pulsar's BrokerNamespaceIsolationData of a broker."""
        row: dict[str, Any] = {"brokerName": broker_id, "primary": False}
        async with self._matching:
            found = await _first_match(constraints, host_of(broker_id))
        if found is not None:
            policy, is_primary = found
            row |= {
                "policyName": policy.name,
                "primary": is_primary,
                "namespaceRegex": policy.namespaces,
            }
        return row


async def _first_match(constraints: Constraints, host: str) -> tuple[IsolationPolicy, bool] | None:
    """The first policy that has the broker, and whether as a primary."""
    for policy in constraints.isolation:
        for patterns, is_primary in ((policy.primary, True), (policy.secondary, False)):
            for pattern in patterns:
                await asyncio.sleep(0)
                if is_match(pattern, host):
                    return policy, is_primary
    return None


# ``/admin/v2/clusters/...``: isolation policies and failure domains.
#
# Docs: pulsar-isolation, pulsar-admin-api.


_CLUSTER: Final = "/admin/v2/clusters/{cluster}"
_ISOLATION: Final = f"{_CLUSTER}/namespaceIsolationPolicies"
_DOMAINS: Final = f"{_CLUSTER}/failureDomains"
_MAX_LISTED: Final = 5


class PolicyRoutes:
    """Isolation policies and failure domains of the cluster; 404 for another cluster."""

    def __init__(self, dependencies: Dependencies, cluster_name: str) -> None:
        self._dependencies = dependencies
        self._isolation = dependencies.services.policies.isolation
        self._domains = dependencies.services.policies.domains
        self._unloads = Unloads(dependencies)
        self._matches = PolicyMatches()
        self._cluster_name = cluster_name

    def routes(self) -> list[web.RouteDef]:
        """Served here; a policy called brokers cannot be read alone, as in Pulsar."""
        return [
            web.get(_ISOLATION, self.policies),
            web.get(f"{_ISOLATION}/brokers", self.brokers),
            web.get(f"{_ISOLATION}/brokers/{{broker}}", self.broker),
            web.get(f"{_ISOLATION}/{{policy}}", self.policy),
            web.post(f"{_ISOLATION}/{{policy}}", self.set_policy),
            web.delete(f"{_ISOLATION}/{{policy}}", self.delete_policy),
            web.get(_DOMAINS, self.domains),
            web.get(f"{_DOMAINS}/{{domain}}", self.domain),
            web.post(f"{_DOMAINS}/{{domain}}", self.set_domain),
            web.delete(f"{_DOMAINS}/{{domain}}", self.delete_domain),
        ]

    # Isolation policies.

    async def policies(self, request: web.Request) -> web.Response:
        """All, by name."""
        self._check_cluster(request)
        return responses.json(await self._isolation.raw())

    async def policy(self, request: web.Request) -> web.Response:
        """One; 404 where there is none of this name."""
        self._check_cluster(request)
        name = request.match_info["policy"]
        raw = (await self._isolation.raw()).get(name)
        if raw is None:
            raise PolicyMissing(f"isolation policy {name} does not exist")
        return responses.json(raw)

    @supports_dry_run
    async def set_policy(self, request: web.Request) -> web.Response:
        """204 once the policy is stored and its ``unload_scope`` is unloaded; 400 if invalid."""
        self._check_cluster(request)
        name, body = request.match_info["policy"], await object_in(request)
        policy = parse_policy(name, body)
        note_change(request, before=(await self._isolation.raw()).get(name), after=body)
        is_dry, live = is_dry_run(request), self._dependencies.cluster.broker_ids()
        effect = await self._isolation.set(policy, live, is_dry_run=is_dry)
        if is_dry:
            return report_dry_run(
                primary=[each for each in live if policy.is_primary(each)],
                secondary=[each for each in live if policy.is_secondary(each)],
                unloads=[str(namespace) for namespace in effect.unloads],
                without_broker=[str(namespace) for namespace in effect.without_broker],
            )
        if effect.unloads:
            await self._unload_misplaced(effect.unloads)
        return responses.no_content()

    @supports_dry_run
    async def delete_policy(self, request: web.Request) -> web.Response:
        """204; 404 where there is none of this name."""
        self._check_cluster(request)
        is_dry, name = is_dry_run(request), request.match_info["policy"]
        note_change(request, before=(await self._isolation.raw()).get(name))
        await self._isolation.delete(name, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    async def brokers(self, request: web.Request) -> web.Response:
        """The live brokers, each with the policies that match it."""
        self._check_cluster(request)
        constraints = await self._constraints()
        live = self._dependencies.cluster.broker_ids()
        return responses.json(
            [await self._matches.row_of(constraints, broker_id) for broker_id in live]
        )

    async def broker(self, request: web.Request) -> web.Response:
        """One broker with the policies that match it; a live one, or one with a short host."""
        self._check_cluster(request)
        broker_id = request.match_info["broker"]
        if broker_id not in self._dependencies.cluster.broker_ids():
            require_short_broker(broker_id)
        return responses.json(await self._matches.row_of(await self._constraints(), broker_id))

    async def _constraints(self) -> Constraints:
        return Constraints(isolation=await self._isolation.all())

    async def _unload_misplaced(self, namespaces: Sequence[Namespace]) -> None:
        """Unload the bundles of brokers that the policies no longer allow.

        Raises:
            ApiError: 503, the policy is set, but some bundles could not be unloaded.
        """
        constraints, live = await self._constraints(), self._dependencies.cluster.broker_ids()
        stayed: list[str] = []
        for namespace in namespaces:

            def is_misplaced(broker_id: str, namespace: Namespace = namespace) -> bool:
                return not allows(constraints, namespace, broker_id, live)

            try:
                await self._unloads.namespace(namespace, is_misplaced)
            except ApiError as error:
                stayed.append(f"{namespace}: {error}")
            except NamespaceMissing:
                # It was deleted meanwhile.
                continue
        if stayed:
            listed = "; ".join(stayed[:_MAX_LISTED])
            reason = f"the policy is set, but not all was unloaded for it ({len(stayed)}): {listed}"
            raise ApiError(503, reason, kind="UnloadFailed")

    # Failure domains.

    async def domains(self, request: web.Request) -> web.Response:
        """All, by name."""
        self._check_cluster(request)
        domains = await self._domains.all()
        return responses.json({name: {"brokers": brokers} for name, brokers in domains.items()})

    async def domain(self, request: web.Request) -> web.Response:
        """One; 404 where there is none of this name."""
        self._check_cluster(request)
        brokers = await self._domains.find(request.match_info["domain"])
        return responses.json({"brokers": brokers})

    @supports_dry_run
    async def set_domain(self, request: web.Request) -> web.Response:
        """204; 409 if one of the brokers is in another domain."""
        self._check_cluster(request)
        brokers = (await object_in(request)).get("brokers")
        if not isinstance(brokers, list) or not all(isinstance(one, str) for one in brokers):
            raise ApiError(400, "the body must be an object with brokers, a list of broker ids")
        is_dry, name = is_dry_run(request), request.match_info["domain"]
        before = await value_before(self._domains.find(name))
        note_change(request, before=before, after=brokers)
        await self._domains.set(name, brokers, is_dry_run=is_dry)
        live = set(self._dependencies.cluster.broker_ids())
        unknown = [each for each in brokers if each not in live]
        return report_dry_run(not_alive=unknown) if is_dry else responses.no_content()

    @supports_dry_run
    async def delete_domain(self, request: web.Request) -> web.Response:
        """204; 404 where there is none of this name."""
        self._check_cluster(request)
        is_dry, name = is_dry_run(request), request.match_info["domain"]
        note_change(request, before=await value_before(self._domains.find(name)))
        await self._domains.delete(name, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    def _check_cluster(self, request: web.Request) -> None:
        if request.match_info["cluster"] != self._cluster_name:
            raise ApiError(404, f"this is cluster {self._cluster_name}", kind="NoCluster")
