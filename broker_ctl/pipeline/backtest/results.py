"""Candidates of a back-test, and the tables of their results."""

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from broker_ctl.core.history.columns import Doc, kind
from broker_ctl.pipeline.tables import plain
from broker_ctl.simulation.replay.replay import Baseline

# Candidates of a back-test: a policy with parameters.


class Named(NamedTuple):
    """The name of a candidate in the tables (`results`)."""

    policy: str
    parameters: str

    def __str__(self) -> str:
        return " ".join(each for each in self if each)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate, with its rules."""

    policy: str
    parameters: str
    contestant: Baseline

    @property
    def named(self) -> Named:
        """Its name in the tables."""
        return Named(self.policy, self.parameters)


# The tables that a back-test writes (docs: load-history-sources).
#
# A *candidate* is a policy with parameters: settings by key as in ``broker.conf``, written
# ``key=value key=value`` in the order of their keys, empty for the settings as they come. A
# *trace* is replayed traffic: a scenario by its name, or the history of a cluster as
# ``cluster:NAME``.


class ReplayRow(NamedTuple):
    """The scores of one candidate on one trace; see `simulation.replay.scores.Scores`."""

    trace: Annotated[str, Doc("scenario, or cluster:NAME")]
    policy: Annotated[str, Doc("one of simulation.baselines.POLICIES, or settings")]
    parameters: Annotated[str, Doc("key=value of those that were set, in order of their keys")]
    seed: Annotated[
        int, Doc("of the traffic; where it was recorded, of the first owners, 0: who had them")
    ]
    minutes: Annotated[int, Doc("that were replayed", "min")]
    bound: Annotated[float, Doc("largest over mean usage that no placement beats")]
    p50: Annotated[float, Doc("largest over mean usage")]
    p99: Annotated[float, Doc("likewise")]
    most: Annotated[float, Doc("likewise, the worst minute")]
    load_moved_pct_per_h: Annotated[float, Doc("load that changed hands", "% of all an hour")]
    moves: Annotated[int, Doc("bundles that changed hands")]
    back_and_forth: Annotated[int, Doc("moves back within the hour")]
    settle_min: Annotated[int | None, Doc("until it was even first; null: never", "min")]
    overload_broker_min: Annotated[int, Doc("brokers above 85 % of what they can take", "min")]


REPLAYS: Final = plain(
    kind(
        "backtest_replays",
        ReplayRow,
        "one row per trace, candidate and seed",
        *("trace", "policy", "parameters", "seed"),
    )
)


class DayRow(NamedTuple):
    """The scores of a replay on one of its days; only of traces of two days and more."""

    trace: Annotated[str, Doc("as in backtest_replays")]
    policy: Annotated[str, Doc("likewise")]
    parameters: Annotated[str, Doc("likewise")]
    seed: Annotated[int, Doc("likewise")]
    day: Annotated[int, Doc("24 hours from the start on, from 1")]
    p99: Annotated[float, Doc("largest over mean usage")]
    load_moved_pct_per_h: Annotated[float, Doc("load that changed hands", "% of all an hour")]
    overload_broker_min: Annotated[int, Doc("brokers above 85 % of what they can take", "min")]


DAYS: Final = plain(
    kind(
        "backtest_days",
        DayRow,
        "one row per trace, candidate, seed and day",
        *("trace", "policy", "parameters", "seed", "day"),
    )
)


class ComparisonRow(NamedTuple):
    """A paired comparison of a candidate with the baseline on the same seeds of one trace."""

    trace: Annotated[str, Doc("as in backtest_replays")]
    policy: Annotated[str, Doc("of the candidate")]
    parameters: Annotated[str, Doc("of the candidate")]
    measure: Annotated[str, Doc("p99, load_moved_pct_per_h or overload_broker_min")]
    baseline_policy: Annotated[str, Doc("what it is held against")]
    baseline_parameters: Annotated[str, Doc("likewise")]
    pairs: Annotated[int, Doc("seeds that both were replayed with")]
    baseline_mean: Annotated[float, Doc("of the measure")]
    candidate_mean: Annotated[float, Doc("of the measure")]
    difference: Annotated[float, Doc("mean of candidate minus baseline; below 0 is better")]
    low: Annotated[float, Doc("of the difference, 95 %, by bootstrap; of one pair -inf")]
    high: Annotated[float, Doc("likewise; of one pair inf")]


COMPARISONS: Final = plain(
    kind(
        "backtest_comparisons",
        ComparisonRow,
        "one row per trace, candidate and measure",
        *("trace", "policy", "parameters", "measure"),
    )
)


class FrontRow(NamedTuple):
    """A candidate on one trace: its means over the seeds, and whether it is on the front."""

    trace: Annotated[str, Doc("as in backtest_replays")]
    policy: Annotated[str, Doc("of the candidate")]
    parameters: Annotated[str, Doc("of the candidate")]
    seeds: Annotated[int, Doc("that it was replayed with")]
    p99: Annotated[float, Doc("mean over the seeds")]
    load_moved_pct_per_h: Annotated[float, Doc("likewise", "% of all an hour")]
    overload_broker_min: Annotated[float, Doc("likewise", "min")]
    is_on_front: Annotated[bool, Doc("no other is as good in all three and better in one")]


FRONT: Final = plain(
    kind(
        "backtest_front",
        FrontRow,
        "one row per trace and candidate",
        *("trace", "policy", "parameters"),
    )
)
