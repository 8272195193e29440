"""``/control/v1/cluster``, ``explain`` and ``advice/size``, which only the leader serves."""

from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import ControlDependencies
from broker_ctl.api.http.redirects import redirect_to_leader
from broker_ctl.api.http.request_params import whole_number_in
from broker_ctl.api.http.responses import ApiError
from broker_ctl.errors import InvalidName

_MOST_GROWTH_PERCENT: Final = 1000


class LeaderRoutes:
    """Serves the leader's view; any other process redirects to the leader: 307."""

    def __init__(self, dependencies: ControlDependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get("/control/v1/cluster", self.cluster),
            web.get("/control/v1/explain", self.explain),
            web.get("/control/v1/advice/size", self.advise_size),
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
        except InvalidName as error:
            raise ApiError(404, str(error), kind="InvalidName") from error

    async def advise_size(self, request: web.Request) -> web.Response:
        """How many brokers the load needs, with ``growth_percent`` more; 503: not known yet."""
        admin = self._dependencies.admin()
        if admin is None:
            return self._to_leader(request)
        growth_percent = 0
        if "growth_percent" in request.query:
            growth_percent = whole_number_in(request, "growth_percent", 1, _MOST_GROWTH_PERCENT)
        advice = admin.advise_size(growth_percent / 100)
        if advice is None:
            text = "no broker has reported what it can take: there is nothing to advise by yet"
            raise ApiError(503, text, kind="NotReady")
        return responses.json(advice.to_row())

    def _to_leader(self, request: web.Request) -> web.Response:
        return redirect_to_leader(request, self._dependencies.cluster, self._dependencies.own_id)
