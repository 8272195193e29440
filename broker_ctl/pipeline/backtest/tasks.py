"""One task of a back-test: a candidate, a trace, and a seed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, Protocol

import numpy as np

from broker_ctl.errors import BrokerCtlError, PipelineError
from broker_ctl.pipeline.backtest.results import Candidate, DayRow, ReplayRow
from broker_ctl.simulation.model.scenario import Scenario, random_owners
from broker_ctl.simulation.replay.replay import replay
from broker_ctl.simulation.replay.scores import bound_of, scores_by_day, scores_of
from broker_ctl.simulation.workload.scenario_workload import WorkloadSource, scenario_of

# Traces to replay: a random scenario for each seed, or a recorded cluster.
#
# A recorded day is unique: its traffic cannot be randomised. Its seed draws the initial owner of
# each bundle, in proportion to the capacity of the brokers; seed 0 keeps the recorded owners. So
# several seeds show how much depends on the initial owners, and not how the strategy performs on
# another day.


AS_RECORDED: Final = 0


class Held(Protocol):
    """A value that is available wherever a task runs, such as a Spark broadcast."""

    @property
    def value(self) -> Scenario:
        """The value."""
        ...


@dataclass(frozen=True, slots=True)
class BacktestTrace:
    """Traffic to replay.

    Attributes:
        name: as the tables have it.
        of_seed: the scenario, for a seed.
    """

    name: str
    of_seed: Callable[[int], Scenario]


def synthetic_trace(source: WorkloadSource) -> BacktestTrace:
    """The trace of a named scenario."""
    return BacktestTrace(source.name, partial(_synthetic, source))


def recorded_trace(name: str, recorded: Held) -> BacktestTrace:
    """The trace of a recorded cluster."""
    return BacktestTrace(name, partial(_recorded, recorded))


def with_start(recorded: Scenario, seed: int) -> Scenario:
    """The scenario with drawn initial owners; unchanged for seed 0."""
    if seed == AS_RECORDED:
        return recorded
    there = {name: each for name, each in recorded.brokers.items() if name not in recorded.absent}
    odds = [capacity.bytes_s for capacity in there.values()]
    rng = np.random.Generator(np.random.PCG64(seed))
    owners = random_owners(rng, tuple(there), odds, len(recorded.traffic.bundles))
    return replace(recorded, owners=owners)


def _synthetic(source: WorkloadSource, seed: int) -> Scenario:
    return scenario_of(replace(source, seed=seed))


def _recorded(recorded: Held, seed: int) -> Scenario:
    return with_start(recorded.value, seed)


# The task of a back-test: one replay, with the code of the simulation.


class Task(NamedTuple):
    """One replay."""

    trace: BacktestTrace
    candidate: Candidate
    seed: int


def tasks_of(
    traces: Sequence[BacktestTrace], candidates: Sequence[Candidate], seeds: Sequence[int]
) -> list[Task]:
    """All combinations of trace, seed and candidate; tasks of one scenario are consecutive."""
    return [
        Task(trace, candidate, seed)
        for trace in traces
        for seed in seeds
        for candidate in candidates
    ]


class Replayed(NamedTuple):
    """A replay.

    Attributes:
        days: of a trace with one day only, none.
    """

    row: ReplayRow
    days: tuple[DayRow, ...]


def replay_task(task: Task) -> Replayed:
    """Run one replay; equal tasks give equal rows, to the bit.

    Raises:
        PipelineError: names the replay and the cause: an unknown or too large scenario, or an error
            of a strategy.
    """
    try:
        return _replay(task)
    except Exception as error:
        # Name the replay, which is one of thousands: for other exceptions Spark reports only that a
        # task failed.
        why = str(error) if isinstance(error, BrokerCtlError) else repr(error)
        which = f"{task.trace.name}, seed {task.seed}, {task.candidate.named}"
        raise PipelineError(f"{which}: {why}") from error


def _replay(task: Task) -> Replayed:
    found = task.trace.of_seed(task.seed)
    contestant = task.candidate.contestant
    played = replay(
        found,
        contestant.rules,
        contestant.pace,
        bundles_per_namespace=contestant.bundles_per_namespace,
    )
    scores = scores_of(played)
    which = (task.trace.name, task.candidate.policy, task.candidate.parameters, task.seed)
    by_day = [DayRow(*which, day, *each) for day, each in enumerate(scores_by_day(played), start=1)]
    row = ReplayRow(
        *which,
        minutes=found.traffic.minutes,
        bound=bound_of(found),
        p50=scores.p50,
        p99=scores.p99,
        most=scores.most,
        load_moved_pct_per_h=scores.load_moved_pct_per_h,
        moves=scores.moves,
        back_and_forth=scores.back_and_forth,
        settle_min=scores.settle_min,
        overload_broker_min=scores.overload_broker_min,
    )
    return Replayed(row, tuple(by_day) if len(by_day) > 1 else ())
