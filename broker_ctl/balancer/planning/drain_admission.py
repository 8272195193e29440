"""Whether a broker may be drained: it obeys commands, and the others have room for its load."""

from broker_ctl.balancer.planning.drains import Drains
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import AuditInfo, Drain, DrainTerms
from broker_ctl.core.planning.drain_forecast import DrainForecast
from broker_ctl.errors import OrderConflict


class DrainAdmission:
    """Judges the drains that operators ask for, and those whose time has come."""

    def __init__(self, term: LeaderTerm, drains: Drains) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._drains = drains

    async def check(self, broker_id: str, terms: DrainTerms) -> DrainForecast:
        """The forecast of a drain that may begin now.

        Raises:
            OrderConflict: the broker takes no commands, or the others lack room.
            StoreError: the view could not be taken.
        """
        self.check_broker(broker_id)
        await require_executable(self._term)
        await self._term.leadership.wait_deciding()
        if not terms.is_forced:
            self._check_receivers(broker_id)
        forecast = await self._drains.forecast(broker_id)
        limit_ratio = self._dependencies.rules().shedding_rules.balance.headroom_ratio
        if not terms.is_forced and (why_not := forecast.refusal(limit_ratio)):
            raise OrderConflict(f"{why_not}; use force to drain it anyway")
        return forecast

    def check_broker(self, broker_id: str) -> None:
        """Check that a broker is one of this cluster's own.

        Raises:
            OrderConflict: it is another program, or not alive.
        """
        if broker_id not in self._dependencies.registry.peers:
            raise OrderConflict(
                f"{broker_id} is not a broker-ctl process and accepts no commands; "
                "unload its bundles with its own tools"
            )

    def drain(self, broker_id: str, order: AuditInfo, terms: DrainTerms) -> Drain:
        """The drain of a broker as it is now."""
        peer = self._dependencies.registry.peer(broker_id)
        ends_after = peer.run if terms.until_restart and peer is not None else ""
        return Drain(order, *self._drains.left(broker_id), terms.ends_ms, ends_after)

    def _check_receivers(self, broker_id: str) -> None:
        others = [peer for peer in self._dependencies.registry.peers if peer != broker_id]
        if not any(map(self._dependencies.can_receive, others)):
            raise OrderConflict(
                f"no broker could receive the bundles of {broker_id}: each of the "
                f"{len(others)} others is stopping or drained; use force to drain it anyway"
            )


async def require_executable(term: LeaderTerm) -> None:
    """Refuse directives that could not be executed: they would wait forever.

    Raises:
        OrderConflict: nothing may be carried out now, and why.
    """
    if why := await term.executor.blocked_reason():
        raise OrderConflict(why)
