"""A trace that is the same on every machine: made of whole numbers, by adding and multiplying."""

from dataclasses import dataclass

from broker_ctl.simulation.model.scenario import Scenario, ScenarioEvent, ScenarioEventKind
from tests.support.pipeline.small_scenarios import small

_BUNDLES = 24
_MINUTES = 45
_BROKERS = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class AtHand:
    """A value in this process, in place of a broadcast variable of Spark."""

    value: Scenario


def golden_trace() -> Scenario:
    """Bundles of 1 to 16 MB/s that drift; one broker dies, and comes back."""
    state = 1
    loads: list[list[float]] = []
    for minute in range(_MINUTES):
        row: list[float] = []
        for bundle in range(_BUNDLES):
            state = (state * 1_103_515_245 + 12_345) % 2**31
            usual = 1 + bundle * 5 % 13
            row.append(usual + (state >> 16) % 4 + (bundle + minute // 15) % 3)
        loads.append(row)
    owners = [_BROKERS[bundle * bundle % 5 % 3] for bundle in range(_BUNDLES)]
    events = [
        ScenarioEvent(18, "b", ScenarioEventKind.DOWN),
        ScenarioEvent(27, "b", ScenarioEventKind.UP),
    ]
    return small(loads, owners, brokers=_BROKERS, events=events)
