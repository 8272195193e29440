"""A cycle of a term, without the balancer around it."""

from broker_ctl.balancer.monitoring.absence_monitor import AbsenceMonitor, StabilityGate
from broker_ctl.balancer.planning.cycle import Cycle
from broker_ctl.balancer.planning.orphans import MassLossBrake
from broker_ctl.balancer.planning.term import LeaderTerm


def cycle_of(term: LeaderTerm, stability_gate: StabilityGate | None = None) -> Cycle:
    """A cycle that nothing disturbs."""
    dependencies = term.dependencies
    gate = stability_gate or StabilityGate(dependencies.store, dependencies.clock)
    return Cycle(term, gate, MassLossBrake(term, AbsenceMonitor(dependencies)))
