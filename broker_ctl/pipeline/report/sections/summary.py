"""The first screen: how even the cluster was, what that cost, and what policies would cost."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import functions as F

from broker_ctl.pipeline.backtest.results import FRONT
from broker_ctl.pipeline.report.sections.imbalance import TARGET
from broker_ctl.pipeline.report.source import ReportSource
from broker_ctl.pipeline.report.values import (
    ChartBars,
    ChartLevel,
    ChartSpan,
    Fact,
    Missing,
    ReportTable,
    Section,
    TableColumn,
    axis,
    figure,
)
from broker_ctl.pipeline.transforms.heat import LOAD_SKEW

_NAME: Final = "summary"
_TITLE: Final = "In short"
_COLUMNS: Final = (
    *(TableColumn("policy"), TableColumn("settings"), TableColumn("p99 of imbalance", "ratio")),
    *(TableColumn("costs", "brokers"), TableColumn("load moved", "% of all an hour")),
    TableColumn("brokers above 85 %", "min"),
)
_COST: Final = (
    "What imbalance costs: brokers must be as large as the fullest one needs, so that an even "
    "cluster with the same load, and a fullest broker as full, would have fewer of them. An "
    "imbalance of r costs 1 - 1/r of the brokers."
)
# Of policies in the picture.
_MOST_BARS: Final = 12


class Measured(NamedTuple):
    """What the leader saw.

    Attributes:
        p99, p50, most: of the usage of the fullest broker over the mean one.
        brokers: in the last cycle.
        mean_usage: of the brokers, 1.0 is full.
    """

    p99: float
    p50: float
    most: float
    brokers: int
    mean_usage: float
    span: ChartSpan
    cycles: int


class Alternative(NamedTuple):
    """What a policy would have made of the same traffic; means over the seeds of a back-test."""

    policy: str
    parameters: str
    p99: float
    load_moved_pct_per_h: float
    overload_broker_min: float


def section(source: ReportSource) -> Section:
    """Words, one picture, and the policies beside each other."""
    skew = source.result(LOAD_SKEW)
    if isinstance(skew, Missing):
        return Section(_NAME, _TITLE, missing=(skew,))
    ratio = F.col("max_over_mean")
    found = skew.agg(
        F.percentile(ratio, F.array(F.lit(0.99), F.lit(0.5), F.lit(1.0))),
        F.max_by("brokers", F.struct("epoch", "cycle")),
        F.avg("mean_usage_ratio"),
        *(F.min("at_ms"), F.max("at_ms"), F.count("*")),
    ).head()
    if found is None or not found[5]:
        return Section(_NAME, _TITLE, ("The leader has gone through no cycle.",))
    (p99, p50, most), brokers, usage, first, last, cycles = found
    measured = Measured(p99, p50, most, brokers, usage, ChartSpan(first, last), cycles)
    return describe(source.cluster, measured, _alternatives(source))


def _alternatives(source: ReportSource) -> Sequence[Alternative] | Missing:
    front = source.backtest(FRONT)
    if isinstance(front, Missing):
        return front
    rows = front.where(F.col("trace") == f"cluster:{source.cluster}").collect()
    if not rows:
        command = f"broker-ctl pipeline backtest --tables TABLES --cluster {source.cluster}"
        return Missing("The back-test has not replayed this cluster.", f"{command} --to DIR")
    names = Alternative._fields
    return [*choose_settings([Alternative(*(row[name] for name in names)) for row in rows])]


def choose_settings(found: Sequence[Alternative]) -> Iterator[Alternative]:
    """Of each policy its settings as they come; where these were not replayed, the most even."""
    by_policy: dict[str, list[Alternative]] = {}
    for each in found:
        by_policy.setdefault(each.policy, []).append(each)
    for some in by_policy.values():
        plain = [each for each in some if not each.parameters]
        yield min(plain or some, key=lambda each: (each.p99, each.parameters))


def brokers_spent(p99: float, brokers: int) -> float:
    """Brokers that an even cluster with as full a fullest broker would not need."""
    return brokers * (1 - 1 / max(1.0, p99))


def describe(
    cluster: str, measured: Measured, alternatives: Sequence[Alternative] | Missing
) -> Section:
    """As a section."""
    spent = brokers_spent(measured.p99, measured.brokers)
    is_even = measured.p99 <= TARGET
    first = (
        f"In 99 of 100 cycles the fullest broker of {cluster} had at most"
        f" {figure(measured.p99)} times the load of the mean one. That is"
        f" {'within' if is_even else 'beyond'} the target of {TARGET}, and costs"
        f" {figure(round(spent, 1))} of its {measured.brokers} brokers."
    )
    says = [first]
    missing: tuple[Missing, ...] = ()
    rows: Sequence[Alternative] = ()
    if isinstance(alternatives, Missing):
        missing = (alternatives,)
    else:
        rows = sorted(alternatives, key=lambda each: (each.p99, each.policy))
        says.append(_compare(measured, spent, rows))
    says.append(_COST)
    return Section(
        _NAME,
        _TITLE,
        tuple(says),
        (
            Fact("brokers", measured.brokers),
            Fact("imbalance costs", round(spent, 1), "brokers"),
            Fact("p99 of the imbalance", measured.p99),
            Fact("mean usage", measured.mean_usage * 100, "%"),
        ),
        (_picture(measured, rows),),
        (_table(measured, rows),) if rows else (),
        source=LOAD_SKEW.name,
        rows=measured.cycles,
        span=measured.span,
        missing=missing,
    )


def _compare(measured: Measured, spent: float, rows: Sequence[Alternative]) -> str:
    best = rows[0]
    saved = spent - brokers_spent(best.p99, measured.brokers)
    moved = f"{figure(best.load_moved_pct_per_h)} % of the load moved an hour"
    if saved < 0.05:
        return (
            f"No policy that was replayed would have been more even: the best,"
            f" {best.policy}, has {figure(best.p99)} with {moved}."
        )
    return (
        f"Under {best.policy} it would have been {figure(best.p99)} with the same traffic, and"
        f" {moved}:"
        f" {figure(round(saved, 1))} brokers fewer."
    )


def _picture(measured: Measured, rows: Sequence[Alternative]) -> ChartBars:
    if rows:
        title = "Imbalance as it was, and under each policy (p99)"
        bars = [ChartLevel("as it was", measured.p99)]
        bars += [ChartLevel(each.policy, each.p99) for each in rows[:_MOST_BARS]]
    else:
        title = "Imbalance as it was"
        values = (("median", measured.p50), ("p99", measured.p99), ("worst cycle", measured.most))
        bars = [ChartLevel(label, value) for label, value in values]
    ends = axis("imbalance", "ratio", (TARGET + 0.01, *(each.value for each in bars)), 1.0)
    return ChartBars(title, ends, tuple(bars), (ChartLevel("target", TARGET),))


def _table(measured: Measured, rows: Sequence[Alternative]) -> ReportTable:
    def row(each: Alternative) -> tuple[Any, ...]:
        spent = round(brokers_spent(each.p99, measured.brokers), 1)
        moved, overload = each.load_moved_pct_per_h, each.overload_broker_min
        return (each.policy, each.parameters, each.p99, spent, moved, overload)

    spent = round(brokers_spent(measured.p99, measured.brokers), 1)
    first = ("as it was", "", measured.p99, spent, None, None)
    title = "The same traffic under each policy, replayed minute by minute"
    return ReportTable(title, _COLUMNS, (first, *map(row, rows)))
