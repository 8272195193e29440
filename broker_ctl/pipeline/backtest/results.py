"""The tables that a back-test writes (docs: load-history-sources).

A *candidate* is a policy with parameters: settings by key as in ``broker.conf``, written
``key=value key=value`` in the order of their keys, empty for the settings as they come. A *trace*
is what is replayed: a scenario by its name, or the history of a cluster as ``cluster:NAME``.
"""

from typing import Annotated, Final, NamedTuple

from broker_ctl.core.history.columns import Tells, kind
from broker_ctl.pipeline.tables import plain


class ReplayRow(NamedTuple):
    """What one candidate made of one trace; see `simulation.scores.Scores`."""

    trace: Annotated[str, Tells("scenario, or cluster:NAME")]
    policy: Annotated[str, Tells("one of simulation.rivals.POLICIES, or settings")]
    parameters: Annotated[str, Tells("key=value of those that were set, in order of their keys")]
    seed: Annotated[
        int, Tells("of the traffic; where it was recorded, of the first owners, 0: who had them")
    ]
    minutes: Annotated[int, Tells("that were replayed", "min")]
    bound: Annotated[float, Tells("largest over mean usage that no placement beats")]
    p50: Annotated[float, Tells("largest over mean usage")]
    p99: Annotated[float, Tells("likewise")]
    most: Annotated[float, Tells("likewise, the worst minute")]
    load_moved_pct_per_h: Annotated[float, Tells("load that changed hands", "% of all an hour")]
    moves: Annotated[int, Tells("bundles that changed hands")]
    back_and_forth: Annotated[int, Tells("moves back within the hour")]
    settle_min: Annotated[int | None, Tells("until it was even first; null: never", "min")]
    overload_broker_min: Annotated[int, Tells("brokers above 85 % of what they can take", "min")]


REPLAYS: Final = plain(
    kind(
        "backtest_replays",
        ReplayRow,
        "one row per trace, candidate and seed",
        *("trace", "policy", "parameters", "seed"),
    )
)


class ComparisonRow(NamedTuple):
    """A candidate against the baseline, pair by pair on the same seeds of one trace."""

    trace: Annotated[str, Tells("as in backtest_replays")]
    policy: Annotated[str, Tells("of the candidate")]
    parameters: Annotated[str, Tells("of the candidate")]
    measure: Annotated[str, Tells("p99, load_moved_pct_per_h or overload_broker_min")]
    baseline_policy: Annotated[str, Tells("what it is held against")]
    baseline_parameters: Annotated[str, Tells("likewise")]
    pairs: Annotated[int, Tells("seeds that both were replayed with")]
    baseline_mean: Annotated[float, Tells("of the measure")]
    candidate_mean: Annotated[float, Tells("of the measure")]
    difference: Annotated[float, Tells("mean of candidate minus baseline; below 0 is better")]
    low: Annotated[float, Tells("of the difference, 95 %, by bootstrap; of one pair -inf")]
    high: Annotated[float, Tells("likewise; of one pair inf")]


COMPARISONS: Final = plain(
    kind(
        "backtest_comparisons",
        ComparisonRow,
        "one row per trace, candidate and measure",
        *("trace", "policy", "parameters", "measure"),
    )
)


class FrontRow(NamedTuple):
    """A candidate in one trace, by its means over the seeds, and whether another beats it."""

    trace: Annotated[str, Tells("as in backtest_replays")]
    policy: Annotated[str, Tells("of the candidate")]
    parameters: Annotated[str, Tells("of the candidate")]
    seeds: Annotated[int, Tells("that it was replayed with")]
    p99: Annotated[float, Tells("mean over the seeds")]
    load_moved_pct_per_h: Annotated[float, Tells("likewise", "% of all an hour")]
    overload_broker_min: Annotated[float, Tells("likewise", "min")]
    is_on_front: Annotated[bool, Tells("no other is as good in all three and better in one")]


FRONT: Final = plain(
    kind(
        "backtest_front",
        FrontRow,
        "one row per trace and candidate",
        *("trace", "policy", "parameters"),
    )
)
