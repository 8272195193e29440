"""``/admin/v2/.../topics``: the topics of a namespace, in Pulsar's JSON.

Docs: pulsar-admin-api.
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from broker_ctl.api.admin.topic_names import TopicNames
from broker_ctl.api.http import responses
from broker_ctl.api.http.request_params import bundle_in, namespace_in
from broker_ctl.api.http.responses import ApiError
from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import DOMAINS, Topic

_OF_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}/topics"
_OF_DOMAIN: Final = f"/admin/v2/{{domain:{'|'.join(DOMAINS)}}}/{{tenant}}/{{namespace}}"
_OF_BUNDLE: Final = f"{_OF_DOMAIN}/{{bundle:0x[0-9a-fA-F]+_0x[0-9a-fA-F]+}}"
_HERE: Final = "/control/v1/topics/{tenant}/{namespace}"
MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "PERSISTENT": DOMAINS[:1],
    "NON_PERSISTENT": DOMAINS[1:],
    "ALL": DOMAINS,
}


class TopicListRoutes:
    """Any broker answers; it asks the owners of the bundles."""

    def __init__(self, names: TopicNames, namespaces: Namespaces) -> None:
        self._names = names
        self._namespaces = namespaces

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_OF_NAMESPACE, self.of_namespace),
            web.get(_OF_DOMAIN, self.of_domain),
            web.get(_OF_BUNDLE, self.of_bundle),
            web.get(_HERE, self.here),
        ]

    async def of_namespace(self, request: web.Request) -> web.Response:
        """Topics of a namespace by ``mode``: PERSISTENT (default), NON_PERSISTENT or ALL."""
        mode = request.query.get("mode") or "PERSISTENT"
        if mode not in MODES:
            raise ApiError(400, f"mode is one of {', '.join(MODES)}")
        names = await self._names.of_namespace(namespace_in(request), MODES[mode])
        return responses.json(names)

    async def of_domain(self, request: web.Request) -> web.Response:
        """Topics of the domain in the path; ``bundle`` restricts the result to one bundle."""
        names = await self._of_domain(request)
        if bundle := request.query.get("bundle"):
            wanted = Bundle.parse(f"{namespace_in(request)}/{bundle}")
            names = [name for name in names if _is_in(wanted, name)]
        return responses.json(names)

    async def of_bundle(self, request: web.Request) -> web.Response:
        """Topics of the domain and the bundle in the path."""
        bundle = await bundle_in(request, self._namespaces)
        names = await self._of_domain(request)
        return responses.json([name for name in names if _is_in(bundle, name)])

    async def here(self, request: web.Request) -> web.Response:
        """Topics loaded at this broker, for a broker that collects the topics of all brokers."""
        return responses.json({"topics": await self._names.loaded_here(namespace_in(request))})

    async def _of_domain(self, request: web.Request) -> list[str]:
        domain = request.match_info["domain"]
        return await self._names.of_namespace(namespace_in(request), (domain,))


def _is_in(bundle: Bundle, name: str) -> bool:
    return Topic.parse(name).ring_hash in bundle.range
