"""Predictions for fewer brokers, more brokers, and a tenant that has grown."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import BalanceRules
from broker_ctl.core.strategies.balance.profile import NOBODY
from broker_ctl.errors import InvalidName
from broker_ctl.pipeline.report.prediction import Circumstance, Prediction, predict, usual_day
from broker_ctl.pipeline.report.sections.imbalance import TARGET
from broker_ctl.pipeline.report.source import ReportSource
from broker_ctl.pipeline.report.values import (
    ChartBars,
    ChartLevel,
    Missing,
    ReportTable,
    Section,
    TableColumn,
    Value,
    axis,
    figure,
)
from broker_ctl.pipeline.tables import HISTORY
from broker_ctl.pipeline.transforms.heat import LOAD_SKEW
from broker_ctl.pipeline.transforms.hours import HOUR_PROFILES, select_latest_cycle

_NAME: Final = "what-if"
_TITLE: Final = "What if: fewer brokers, more of them, a tenant that doubles"
_HOUR_MS: Final = 3_600_000
_RECENT_MS: Final = 7 * 24 * _HOUR_MS
# A cluster of this many takes seconds.
_MOST_BUNDLES: Final = 20_000
_MOST_HOURS: Final = 40_000 * 24
_TENANTS: Final = 3
# As the planner has it: the others must not be fuller after the loss of one.
_FULL_PERCENT: Final = BalanceRules().headroom_ratio * 100
_HOW: Final = (
    "The usual day of the profile, gone through under the planner with its default settings, "
    "in each case. What an hour's mean does not show is taken from what was measured: the p99 "
    "of the cluster as it is, outside the hours after a broker came or went."
)
_WHO: Final = (
    "Those that go are the largest brokers; those that come have the median size. Usage is "
    "of hours' means."
)
_COLUMNS: Final = (
    *(
        TableColumn("case"),
        TableColumn("p99 of imbalance", "ratio"),
        TableColumn("change", "points"),
    ),
    *(
        TableColumn("mean usage, busiest moment", "%"),
        TableColumn("fullest broker of the day", "%"),
    ),
    TableColumn("moves", "a day"),
)


class ClusterNow(NamedTuple):
    """The cluster in the leader's last cycle that is there as a whole.

    Attributes:
        brokers: ids, ascending; ``sizes`` of each, in mean brokers.
        owners: of each of ``bundles``; None: nobody, or who is not there.
        measured: p99 of its imbalance, as it is.
        left_out: bundles that there are besides.
    """

    brokers: Sequence[str]
    sizes: Sequence[float]
    bundles: Sequence[Bundle]
    owners: Sequence[str | None]
    measured: float
    left_out: int = 0


def section(source: ReportSource) -> Section:
    """The usual day under the planner, in each case."""
    profiles, skew = source.result(HOUR_PROFILES), source.result(LOAD_SKEW)
    names = ("broker_loads", "bundle_loads", "capacities")
    brokers, bundles, capacities = (source.history(HISTORY[name]) for name in names)
    frames = (profiles, skew, brokers)
    if lacking := tuple(each for each in frames if isinstance(each, Missing)):
        return Section(_NAME, _TITLE, missing=lacking)
    assert isinstance(profiles, DataFrame)
    assert isinstance(skew, DataFrame)
    assert isinstance(brokers, DataFrame)
    assert isinstance(bundles, DataFrame)
    assert isinstance(capacities, DataFrame)
    now = _now(brokers, bundles, capacities, skew)
    names_of_hours = ("bundle", "hour", "usage_ratio")
    fullest = profiles.select(*names_of_hours).orderBy(F.desc("usage_ratio"), "bundle", "hour")
    collected = fullest.limit(_MOST_HOURS + 1).collect()
    hours = [
        (each, row[1], row[2])
        for row in collected[:_MOST_HOURS]
        if (each := _parse_bundle(row[0])) is not None
    ]
    return describe_cases(now, hours, is_cut=len(collected) > _MOST_HOURS)


def describe_cases(
    now: ClusterNow | None, hours: Sequence[tuple[Bundle, int, float]], *, is_cut: bool = False
) -> Section:
    """As a section.

    Args:
        now: None: there is no cluster.
        hours: of the profile: bundle, hour of the day, part of a mean broker.
        is_cut: there are more of them, none fuller.
    """
    if now is None or not now.bundles or not hours:
        return Section(
            _NAME, _TITLE, ("The leader has seen no broker with bundles: nothing is foretold.",)
        )
    cluster = _circumstance(now, hours)
    as_it_is = predict(cluster)
    trembling = now.measured - as_it_is.p99
    rows: list[tuple[Value, ...]] = []
    for label, case in cases(cluster, now):
        found = as_it_is if case is cluster else predict(case)
        rows.append(_row(label, found, trembling, now.measured))
    full = [f"{row[0]} ({figure(row[4])} %)" for row in rows if float(row[4] or 0) > _FULL_PERCENT]
    if full:
        says = [f"Too small by day, with a broker above {_FULL_PERCENT:.0f} %: {', '.join(full)}."]
    else:
        says = [f"In no case a broker is above {_FULL_PERCENT:.0f} % in an hour of the day."]
    known = len({hour for _, hour, _ in hours})
    says += [_HOW, _WHO]
    if known < 24:
        says.append(f"The profile knows {known} of 24 hours: the others are as the mean of these.")
    if is_cut:
        says.append(f"Of the profile the {len(hours):,} fullest hours of bundles are taken.")
    if now.left_out:
        says.append(f"The {now.left_out:,} smallest bundles are left out.")
    bars = tuple(ChartLevel(str(row[0]), float(row[1] or 0.0)) for row in rows)
    ends = axis("p99 of imbalance", "ratio", (TARGET + 0.01, *(each.value for each in bars)), 1.0)
    chart = ChartBars("Prediction p99 of imbalance", ends, bars, (ChartLevel("target", TARGET),))
    return Section(
        _NAME,
        _TITLE,
        tuple(says),
        charts=(chart,),
        tables=(ReportTable("Prediction", _COLUMNS, tuple(rows)),),
        source=HOUR_PROFILES.name,
        rows=len(hours),
    )


def cases(cluster: Circumstance, now: ClusterNow) -> Iterator[tuple[str, Circumstance]]:
    """Each with its name; the first one is the cluster as it is."""
    yield "as it is", cluster
    count = len(now.brokers)
    numbers = sorted({1, max(2, round(count / 10))})
    largest = sorted(range(count), key=lambda each: (-cluster.sizes[each], now.brokers[each]))
    for number in numbers:
        if number < count:
            gone = [now.brokers[each] for each in largest[:number]]
            gone_text = ", ".join(gone) if number <= 2 else f"{number} brokers"
            yield f"without {gone_text}", cluster.without(largest[:number])
    for number in numbers:
        yield f"{number} more broker{'' if number == 1 else 's'}", cluster.with_more(number)
    tenants = np.array([each.namespace.tenant for each in now.bundles])
    carried = cluster.load.sum(axis=1)
    loads = {each: float(carried[tenants == each].sum()) for each in set(tenants.tolist())}
    for tenant in sorted(loads, key=lambda each: (-loads[each], each))[:_TENANTS]:
        factors = np.where(tenants == tenant, 2.0, 1.0)
        yield f"tenant {tenant} doubles", cluster.times(factors)


def _circumstance(now: ClusterNow, hours: Sequence[tuple[Bundle, int, float]]) -> Circumstance:
    numbers = {broker: number for number, broker in enumerate(now.brokers)}
    owner = [NOBODY if each is None else numbers.get(each, NOBODY) for each in now.owners]
    return Circumstance(
        usual_day(hours, now.bundles), np.array(owner, np.int32), np.array(now.sizes, np.float64)
    )


def _row(label: str, found: Prediction, trembling: float, measured: float) -> tuple[Value, ...]:
    p99 = max(1.0, found.p99 + trembling)
    return (
        label,
        p99,
        (p99 - measured) * 100,
        found.mean_usage * 100,
        found.most_usage * 100,
        found.moves,
    )


def _now(
    brokers: DataFrame, bundles: DataFrame, capacities: DataFrame, skew: DataFrame
) -> ClusterNow | None:
    is_last = select_latest_cycle(brokers)
    if is_last is None:
        return None
    there = sorted(row[0] for row in brokers.where(is_last).select("broker").collect())
    newest = F.max_by("size_ratio", F.struct("epoch", "cycle"))
    sizes = dict(map(tuple, capacities.groupBy("broker").agg(newest).collect()))
    held = bundles.where(is_last).orderBy(F.desc("usage_ratio"), "bundle")
    found = held.select("bundle", "owner").limit(_MOST_BUNDLES + 1).collect()
    left_out = held.count() - _MOST_BUNDLES if len(found) > _MOST_BUNDLES else 0
    named = [(_parse_bundle(row[0]), row[1]) for row in found[:_MOST_BUNDLES]]
    known = [(bundle, owner) for bundle, owner in named if bundle is not None]
    return ClusterNow(
        there,
        [sizes.get(each) or 1.0 for each in there],
        [bundle for bundle, _ in known],
        [owner for _, owner in known],
        _measured_skew(skew, len(there)),
        left_out,
    )


def _measured_skew(skew: DataFrame, brokers: int) -> float:
    """P99 of the last days, with this number of brokers, and not within the hour after a change."""
    last = skew.agg(F.max("at_ms")).head()
    newest_ms = (last and last[0]) or 0
    recent = skew.where(F.col("at_ms") > newest_ms - _RECENT_MS)
    alike = recent.where(F.col("brokers") == brokers)
    # Of the very last cycle brokers may be missing whose rows were not taken in yet.
    is_change = (F.col("brokers") != brokers) & (F.col("at_ms") < newest_ms)
    changed = recent.agg(F.max(F.when(is_change, F.col("at_ms"))), F.min("at_ms")).head()
    changed_ms = 0 if changed is None else changed[0] or changed[1]
    p99 = F.percentile("max_over_mean", 0.99)
    settled = F.percentile(
        F.when(F.col("at_ms") > changed_ms + _HOUR_MS, F.col("max_over_mean")), 0.99
    )
    # A history of less than an hour has nothing else.
    found = alike.agg(F.coalesce(settled, p99)).head()
    return 1.0 if found is None or found[0] is None else float(found[0])


def _parse_bundle(name: str) -> Bundle | None:
    """Parse the name of a bundle; None if it is not one."""
    try:
        return Bundle.parse(name)
    except InvalidName:
        return None
