"""The first page: how is the cluster, who leads, what is it doing, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker_ctl.console.pages.frame import Bars, LoadBand, Row, bars_of
from broker_ctl.console.pages.history import Group, LoadTrace, grouped, trace_of, usual_s
from broker_ctl.console.pages.judgement import Judgement, KnownFacts, judge, needs_of

_GROUPS: Final = 8


@dataclass(frozen=True, slots=True)
class Now:
    """The first page.

    Attributes:
        acts: the newest decisions that did, or tried, something.
        skips: the newest reasons for not acting, one of each kind.
        usual_s: how long a move usually takes; None: not known.
        trace: the imbalance of this term; None: too little is known.
        is_paused: whether the balancer is paused, so that it can be resumed.
        lacks_session: whether ZooKeeper is away, where a pause is kept.
    """

    judgement: Judgement
    needs: tuple[Judgement, ...]
    bars: Bars
    acts: tuple[Group, ...]
    skips: tuple[Group, ...]
    usual_s: float | None
    trace: LoadTrace | None
    is_paused: bool
    lacks_session: bool


def now_page(known: KnownFacts, band: LoadBand, points: Sequence[Row] = ()) -> Now:
    """The first page of what is known."""
    cluster = known.cluster
    decisions = () if cluster is None else cluster["decisions"]
    skips: dict[str, Row] = {}
    for row in decisions:
        if row["kind"] == "skip":
            skips.setdefault(row["reason"], row)
    return Now(
        judge(known, band),
        tuple(needs_of(known)),
        bars_of(() if cluster is None else cluster["brokers"], band),
        grouped(row for row in decisions if row["kind"] != "skip")[:_GROUPS],
        tuple(Group((row,)) for row in skips.values()),
        usual_s(decisions),
        trace_of(points, band),
        known.is_paused,
        known.lacks_session,
    )
