"""``/control/v1/rollout``: restarts of the brokers of a cluster, for operators and their driver.

The leader does what is the cluster's; any other broker redirects to it.
"""

from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.dependencies import ControlDependencies
from broker_ctl.api.http.redirects import redirect_to_leader
from broker_ctl.api.http.responses import ApiError
from broker_ctl.balancer.admin.rollout import RolloutOperations
from broker_ctl.core.rollout.order import RolloutScope

_ROLLOUT: Final = "/control/v1/rollout"
_MOST_BROKERS: Final = 5000
_UNAVAILABLE: Final = ("1", "zone")


class RolloutRoutes:
    """Rollouts, for operators."""

    def __init__(self, dependencies: ControlDependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [web.get(f"{_ROLLOUT}/plan", self.plan)]

    async def plan(self, request: web.Request) -> web.Response:
        """Order, moves and greatest load of a rollout; ``refusal``: why it would not begin.

        ``brokers`` names some, separated by commas; ``max_unavailable`` is 1 or ``zone``;
        ``canary`` names the broker that restarts first.
        """
        operations = self._operations()
        if operations is None:
            return self._to_leader(request)
        return responses.json(await operations.forecast(_scope_in(request)))

    def _operations(self) -> RolloutOperations | None:
        admin = self._dependencies.admin()
        return None if admin is None else admin.operations.rollout

    def _to_leader(self, request: web.Request) -> web.Response:
        return redirect_to_leader(request, self._dependencies.cluster, self._dependencies.own_id)


def _scope_in(request: web.Request) -> RolloutScope:
    names = request.query.get("brokers", "")
    brokers = tuple(name.strip() for name in names.split(",") if name.strip())
    return scope_of(
        brokers, request.query.get("max_unavailable", "1"), request.query.get("canary", "")
    )


def scope_of(brokers: tuple[str, ...], max_unavailable: str, canary: str) -> RolloutScope:
    """The scope by the texts of a request.

    Raises:
        ApiError: a text does not fit.
    """
    if len(brokers) > _MOST_BROKERS:
        raise ApiError(400, f"at most {_MOST_BROKERS} brokers can be named")
    if max_unavailable not in _UNAVAILABLE:
        raise ApiError(400, "max_unavailable is 1 or zone")
    return RolloutScope(brokers, max_unavailable == "zone", canary)
