"""``/control/v1/cluster`` and ``/control/v1/explain``, which only the leader serves."""

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import ControlDependencies
from broker_ctl.api.http.redirects import redirect_to_leader
from broker_ctl.api.http.responses import ApiError
from broker_ctl.errors import InvalidName


class LeaderRoutes:
    """Serves the leader's view; any other process redirects to the leader: 307."""

    def __init__(self, dependencies: ControlDependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get("/control/v1/cluster", self.cluster),
            web.get("/control/v1/explain", self.explain),
        ]

    async def cluster(self, request: web.Request) -> web.Response:
        """The leader's view of all brokers."""
        admin = self._dependencies.admin()
        return self._to_leader(request) if admin is None else responses.json(dict(admin.overview()))

    async def explain(self, request: web.Request) -> web.Response:
        """The leader's knowledge of a broker or a bundle; 404: neither."""
        admin, subject = self._dependencies.admin(), request.query.get("subject", "")
        if admin is None:
            return self._to_leader(request)
        try:
            return responses.json(dict(admin.explain(subject)))
        except InvalidName as met:
            raise ApiError(404, str(met), kind="InvalidName") from met

    def _to_leader(self, request: web.Request) -> web.Response:
        return redirect_to_leader(request, self._dependencies.cluster, self._dependencies.own_id)
