"""Where a scenario that is replayed comes from: it is drawn by name, or read from files."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.scenarios.catalogue import scenario
from broker_ctl.simulation.traces.trace_files import read_events, read_traffic
from broker_ctl.simulation.traces.traced import build_trace_scenario

_TRACE_BROKERS: Final = 10


@dataclass(frozen=True, slots=True)
class Source:
    """Where a scenario comes from: its name, or files.

    Attributes:
        brokers, seed: None: the usual.
    """

    name: str
    hours: int = 24
    brokers: int | None = None
    seed: int | None = None
    trace: Path | None = None
    events: Path | None = None


# Replays of the same scenario follow each other.
@lru_cache(maxsize=1)
def scenario_of(source: Source) -> Scenario:
    """Drawn, or read.

    Raises:
        SettingsError: no such scenario, one too large, or files that cannot be read.
    """
    if source.trace is None:
        return scenario(source.name, brokers=source.brokers, hours=source.hours, seed=source.seed)
    events = read_events(source.events) if source.events is not None else ()
    brokers = _TRACE_BROKERS if source.brokers is None else source.brokers
    return build_trace_scenario(source.name, read_traffic(source.trace), brokers, events)
