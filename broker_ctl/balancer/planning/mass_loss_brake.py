"""Pauses balancing after a mass loss, until the brokers are back or an operator resumes it.

It is the operators' pause, given by the leader: it survives the leader, every broker shows it with
its reason, and `broker-ctl resume` ends it. Placement of orphans goes on, at a bounded rate.
"""

import logging

from broker_ctl.balancer.context.rules import LeaderRules
from broker_ctl.balancer.monitoring.absence_monitor import AbsenceMonitor
from broker_ctl.balancer.planning.directive_writes import write_directives
from broker_ctl.balancer.planning.lost_brokers import LostBrokers
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import AuditInfo, Pause
from broker_ctl.errors import CorruptRecord, NewerVersion
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete
from broker_ctl.store.records.directives import PauseRecord

log = logging.getLogger(__name__)

_SHOWN = 5
_WHO = "broker-ctl"


class MassLossBrake:
    """The brake of one term.

    Attributes:
        lost_brokers: all that are known, for longer than they count here.
    """

    def __init__(self, term: LeaderTerm, absence_monitor: AbsenceMonitor) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._absence_monitor = absence_monitor
        self.lost_brokers = LostBrokers(term, absence_monitor)
        self._reporters: set[str] = set()

    async def advance(self, rules: LeaderRules) -> None:
        """Pause or resume, if it is time for it.

        Raises:
            Fenced, AuthorityLost: this broker does not lead any more.
            StoreError: the pause could not be read, or not be written.
        """
        await self.lost_brokers.advance(is_dry_run=rules.is_dry_run)
        present = frozenset(self._dependencies.registry.peers)
        silent = self._silent(present)
        lost, present = self._absence_monitor.lost(silent), present - silent
        is_mass_loss = rules.mass_loss.is_mass_loss(lost, present)
        pause = self._dependencies.directives.pause
        if pause is None and is_mass_loss:
            await self._engage(lost, present)
        elif pause is not None and pause.is_automatic and not is_mass_loss:
            await self._release()

    def _silent(self, present: frozenset[str]) -> frozenset[str]:
        """Live brokers that have reported in this term, and whose report is gone."""
        reports = self._term.load_monitor.reports.keys()
        self._reporters = (self._reporters | reports) & present
        return frozenset(self._reporters - reports)

    async def _engage(self, lost: frozenset[str], present: frozenset[str]) -> None:
        await self._term.leadership.wait_deciding()
        names = ", ".join(sorted(lost)[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
        why = (
            f"{len(lost)} of {len(lost | present)} brokers were lost ({names}): balancing goes on "
            "when they are back, or after broker-ctl resume"
        )
        order = AuditInfo.of(self._dependencies.clock.wall_ms(), _WHO, why)
        pause = Pause(order, is_automatic=True, lost=tuple(sorted(lost)))
        if await write_directives(self._term, Create(paths.PAUSE, PauseRecord(pause).encode())):
            log.warning("the balancing is paused: %s", why)

    async def _release(self) -> None:
        await self._term.leadership.wait_deciding()
        node = await self._dependencies.store.get(paths.PAUSE)
        if node is None:
            return
        try:
            is_automatic = PauseRecord.decode(node.path, node.data).pause.is_automatic
        except (CorruptRecord, NewerVersion):
            return
        # By its version: an operator may make the pause their own meanwhile.
        if is_automatic and await write_directives(
            self._term, Delete(paths.PAUSE, node.stat.version)
        ):
            log.info("the lost brokers are back: the balancing goes on")
