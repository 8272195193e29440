"""What happens to a request for which the event loop has no time at once."""

from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.limits.loop_lag import LoopLag
from broker_ctl.api.http.limits.turns import Turns

# A request that waited longer is not worth the work: clients give up, and probes have failed.
_MAX_WAIT_S: Final = 5.0
_REASON: Final = "this broker has more requests than it can answer"
_READS: Final = frozenset({"GET", "HEAD"})
_HEALTH: Final = frozenset(
    {"/livez", "/readyz", "/admin/v2/brokers/health", "/admin/v2/brokers/ready", "/status.html"}
)
# The leader's commands, and the lease of the broker process: the cluster is lost without them.
_COMMANDS: Final = "/control/"
_LEASE: Final = "/dataplane/"


class Overload:
    """Turns for requests, and their rejection while heartbeats may be late."""

    def __init__(self, turns: Turns, lag: LoopLag) -> None:
        self.turns = turns
        self._lag = lag

    async def wait(self, request: web.BaseRequest) -> web.Response | None:
        """Wait for a turn; the rejection of the request, or None.

        Only requests that have to wait are rejected: a lag that other processes cause would not
        become less. Commands, leases and health checks never are.
        """
        if _is_urgent(request):
            await self.turns.wait(is_urgent=True)
            return None
        waited_s = await self.turns.wait(is_urgent=False)
        if self._lag.is_high or waited_s > _MAX_WAIT_S:
            return responses.error(503, "Busy", _REASON)
        return None


def _is_urgent(request: web.BaseRequest) -> bool:
    path = request.path
    if path.startswith(_COMMANDS):
        return request.method not in _READS
    return path in _HEALTH or path.startswith(_LEASE)
