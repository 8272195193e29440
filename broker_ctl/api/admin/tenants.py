"""``/admin/v2/tenants``: tenants, with Pulsar's JSON and statuses.

Docs: pulsar-admin-api.
"""

from typing import Any, Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change, value_before
from broker_ctl.api.http.request_params import (
    fields_in,
    flag,
    is_dry_run,
    report_dry_run,
    supports_dry_run,
)
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.policies.tenants import TenantInfo, Tenants
from broker_ctl.core.model.field_kinds import TENANT_INFO

_TENANTS: Final = "/admin/v2/tenants"
_TENANT: Final = f"{_TENANTS}/{{tenant}}"


class TenantRoutes:
    """List, show, create, update, delete."""

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_TENANTS, self.names),
            web.get(_TENANT, self.show),
            web.put(_TENANT, self.create),
            web.post(_TENANT, self.update),
            web.delete(_TENANT, self.delete),
        ]

    async def names(self, _: web.Request) -> web.Response:
        """Names of all tenants."""
        return responses.json(await self._tenants.names())

    async def show(self, request: web.Request) -> web.Response:
        """Data of one tenant; 404 if it does not exist."""
        info = await self._tenants.find(request.match_info["tenant"])
        return responses.json(info.to_json())

    @supports_dry_run
    async def create(self, request: web.Request) -> web.Response:
        """204; 409 if the tenant exists, 412 for an invalid name and for unknown clusters."""
        is_dry, info = is_dry_run(request), await _info_in(request)
        note_change(request, after=info.to_json())
        await self._tenants.create(request.match_info["tenant"], info, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    @supports_dry_run
    async def update(self, request: web.Request) -> web.Response:
        """204; 412 while a cluster that is no longer allowed serves one of its namespaces."""
        is_dry, info = is_dry_run(request), await _info_in(request)
        name = request.match_info["tenant"]
        note_change(request, before=await self._stored(name), after=info.to_json())
        await self._tenants.update(name, info, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    @supports_dry_run
    async def delete(self, request: web.Request) -> web.Response:
        """204; 409 while the tenant has namespaces; 405 for a forced deletion."""
        if flag(request, "force"):
            reason = "Broker doesn't allow forced deletion of tenants: delete its namespaces first"
            raise ApiError(405, reason, kind="NotAllowed")
        is_dry, name = is_dry_run(request), request.match_info["tenant"]
        note_change(request, before=await self._stored(name))
        await self._tenants.delete(name, is_dry_run=is_dry)
        return report_dry_run() if is_dry else responses.no_content()

    async def _stored(self, name: str) -> dict[str, Any] | None:
        info = await value_before(self._tenants.find(name))
        return None if info is None else info.to_json()


async def _info_in(request: web.Request) -> TenantInfo:
    return TenantInfo.of(await fields_in(request, TENANT_INFO))
