"""The first page: how is the cluster, who leads, what is it doing, and why."""

from dataclasses import dataclass
from typing import Final

from broker_ctl.console.pages.bars import Band, Bars, bars_of
from broker_ctl.console.pages.frame import Row
from broker_ctl.console.pages.judgement import Judgement, Known, judge, needs_of

_DECISIONS: Final = 12


@dataclass(frozen=True, slots=True)
class Now:
    """The first page.

    Attributes:
        acts: the newest decisions that did, or tried, something.
        skips: the newest reasons for not acting, one of each kind.
    """

    judgement: Judgement
    needs: tuple[Judgement, ...]
    bars: Bars
    acts: tuple[Row, ...]
    skips: tuple[Row, ...]


def now_page(known: Known, band: Band) -> Now:
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
        tuple(row for row in decisions if row["kind"] != "skip")[:_DECISIONS],
        tuple(skips.values()),
    )
