"""The task of a back-test: one replay, with the code of the simulation."""

from collections.abc import Sequence
from typing import NamedTuple

from broker_ctl.errors import BrokerCtlError, PipelineError
from broker_ctl.pipeline.backtest.candidates import Candidate
from broker_ctl.pipeline.backtest.results import DayRow, ReplayRow
from broker_ctl.pipeline.backtest.traces import Trace
from broker_ctl.simulation.replay.daily import scores_by_day
from broker_ctl.simulation.replay.lower_bound import bound_of
from broker_ctl.simulation.replay.replay import replay
from broker_ctl.simulation.replay.scores import scores_of


class Task(NamedTuple):
    """One replay."""

    trace: Trace
    candidate: Candidate
    seed: int


def tasks_of(
    traces: Sequence[Trace], candidates: Sequence[Candidate], seeds: Sequence[int]
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
