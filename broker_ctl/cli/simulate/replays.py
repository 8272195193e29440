"""Replays of scenarios under policies, and their results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.simulation.plots.chart import Curve
from broker_ctl.simulation.replay.baselines import POLICIES, Baseline
from broker_ctl.simulation.replay.lower_bound import bound_of
from broker_ctl.simulation.replay.record import Moved
from broker_ctl.simulation.replay.replay import replay
from broker_ctl.simulation.replay.scores import Scores, scores_of
from broker_ctl.simulation.workload.sources import Source, scenario_of

SETTINGS: Final = "settings"
BALANCE: Final = "balance"


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario under a policy."""

    source: Source
    policy: str
    contestant: Baseline


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of a replay, without the traffic."""

    scenario: str
    policy: str
    bound: float
    scores: Scores
    curve: Curve
    moves: tuple[Moved, ...]


def run_replay(run: Run, on_minute: Callable[[], None]) -> ReplayResult:
    """Run a replay; ``on_minute`` is called after each simulated minute.

    Raises:
        SettingsError: as `scenario_of`.
        InvariantBroken: a plan of a strategy violates an invariant.
    """
    found = scenario_of(run.source)
    record = replay(
        found,
        run.contestant.rules,
        run.contestant.pace,
        on_minute,
        bundles_per_namespace=run.contestant.bundles_per_namespace,
    )
    return ReplayResult(
        scenario=run.source.name,
        policy=run.policy,
        bound=bound_of(found),
        scores=scores_of(record),
        curve=Curve.of(run.policy, record),
        moves=record.moves,
    )


def contestant_of(
    policy: str, config: Path | None, environment: Mapping[str, str], overrides: tuple[str, ...]
) -> Baseline:
    """A policy of `POLICIES`, or that of a leader with its settings.

    Raises:
        SettingsError: a setting is invalid.
        KeyError: no such policy.
    """
    if policy != SETTINGS:
        return POLICIES[policy]()
    from broker_ctl.daemon.wiring.leader_rules import leader_rules
    from broker_ctl.settings.sources import load

    # A leader has one pace, whatever its strategies.
    return Baseline(leader_rules(load(config, environment, overrides)), POLICIES[BALANCE]().pace)
