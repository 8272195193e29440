"""``/control/v1/failsafe``: the members whose promises let a broker serve on without ZooKeeper."""

from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.access.audit import note_change
from broker_ctl.api.http.dependencies import Dependencies
from broker_ctl.api.http.dry_runs import is_dry_run, supports_dry_run
from broker_ctl.core.failsafe.members import standing

_FAILSAFE: Final = "/control/v1/failsafe"


class FailsafeRoutes:
    """What this broker knows of the members, and the removal of one that is gone."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class."""
        return [
            web.get(_FAILSAFE, self.status),
            web.delete(f"{_FAILSAFE}/members/{{broker}}", self.remove),
        ]

    async def status(self, _: web.Request) -> web.Response:
        """The members by this broker, and whether it serves by their promises now.

        409: ownershipAuthority is not failsafe.
        """
        membership = self._dependencies.services.require_membership()
        return responses.json(
            {
                "broker": self._dependencies.own_id,
                "is_admitted": membership.is_admitted,
                "serves_by_promises": self._dependencies.authorised.is_promised,
                "promised_ms": round(membership.promised_s * 1000),
                "members": standing(membership.members, membership.reads),
            }
        )

    @supports_dry_run
    async def remove(self, request: web.Request) -> web.Response:
        """Whether a broker was removed from the members; it may be added again when it starts.

        409: the broker that is asked is not admitted itself, or is the one to be removed, or
        ownershipAuthority is not failsafe.
        """
        membership, broker_id = (
            self._dependencies.services.require_membership(),
            request.match_info["broker"],
        )
        if is_dry_run(request):
            was_member = membership.can_remove(broker_id)
        else:
            note_change(request, before={"members": standing(membership.members, membership.reads)})
            was_member = bool(await membership.remove([broker_id]))
        return responses.json({"broker": broker_id, "was_member": was_member})
