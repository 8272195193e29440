"""``/admin/v2/resource-quotas``: expected resource needs of bundles.

Docs: pulsar-load-data, pulsar-admin-api.
"""

from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.request_params import bundle_in, object_in
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.policies.policies import ResourceQuotas, parse_quota
from broker_ctl.codec import decode
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import BundleGone

_DEFAULT: Final = "/admin/v2/resource-quotas"
_OF_BUNDLE: Final = f"{_DEFAULT}/{{tenant}}/{{namespace}}/{{bundle}}"


class QuotaRoutes:
    """The default quota, and those of single bundles."""

    def __init__(self, quotas: ResourceQuotas, namespaces: Namespaces) -> None:
        self._quotas = quotas
        self._namespaces = namespaces

    def routes(self) -> list[web.RouteDef]:
        """What is served here; the default quota has the same verbs as the others."""
        return [
            route
            for path in (_DEFAULT, _OF_BUNDLE)
            for route in (
                web.get(path, self.show),
                web.post(path, self.set),
                web.delete(path, self.delete),
            )
        ]

    async def show(self, request: web.Request) -> web.Response:
        """The bundle's own or the default quota; 404 if the bundle does not exist."""
        quota = await self._quotas.payload(await self._bundle_in(request))
        return responses.encoded_json(quota)

    async def set(self, request: web.Request) -> web.Response:
        """204; 400 for a body that is not a quota, 404 if the bundle does not exist."""
        bundle = await self._bundle_in(request)
        body = await object_in(request)
        quota = parse_quota(body)
        note_change(request, before=decode(await self._quotas.payload(bundle)), after=body)
        await self._quotas.set(quota, bundle)
        return responses.no_content()

    async def delete(self, request: web.Request) -> web.Response:
        """204, even if there was no quota; 404 if the bundle does not exist."""
        bundle = await self._bundle_in(request)
        note_change(request, before=decode(await self._quotas.payload(bundle)))
        await self._quotas.delete(bundle)
        return responses.no_content()

    async def _bundle_in(self, request: web.Request) -> Bundle | None:
        if "bundle" not in request.match_info:
            return None
        try:
            return await bundle_in(request, self._namespaces)
        except BundleGone as error:
            raise ApiError(404, str(error), kind="BundleGone") from error
