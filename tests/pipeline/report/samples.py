"""A report made by hand, with every kind of chart, and names that would like to be markup."""

from broker_ctl.pipeline.report.values import (
    TIME,
    Axis,
    Bars,
    Column,
    Fact,
    Group,
    Heat,
    Level,
    Lines,
    Missing,
    Point,
    Points,
    Report,
    Section,
    Series,
    Span,
    Stacks,
    Table,
)
from tests.support.pipeline.segment_files import DAY_ONE_MS, HOUR_MS

HOSTILE = "\"><script>alert(1)</script><img src='http://127.0.0.1/x' onerror=alert(2)>&\u202e\x07"
MANY = 9
SPAN = Span(DAY_ONE_MS, DAY_ONE_MS + 4 * HOUR_MS)
_TIME = Axis("time", TIME, *map(float, SPAN))
_XS = tuple(DAY_ONE_MS + hour * HOUR_MS for hour in range(4))
LINES = Lines(
    "Usage of brokers",
    _TIME,
    Axis("usage", "%", 0.0, 80.0),
    _XS,
    HOUR_MS,
    (
        Series(HOSTILE, (10.0, None, 30.0, 70.5)),
        *(Series(f"broker-{n}", (n, n + 20.0, n + 10.0, n * 2.0)) for n in range(1, MANY)),
    ),
    (
        Series("lowest broker", (1.0, 2.0, None, 0.0)),
        Series("highest broker", (60.0, 70.0, None, 80.0)),
    ),
    (Level("mean", 33.3), Level("target", 50.0)),
)
STACKS = Stacks(
    "Load moved",
    _TIME,
    Axis("moved an hour", "% of all load", 0.0, 5.0),
    _XS,
    HOUR_MS,
    (Series("band", (1.0, 0.0, 2.5, 0.25)), Series(HOSTILE, (0.5, 3.0, 2.0, 0.0))),
)
HEAT = Heat(
    "The hottest bundles",
    "hour of a usual day (UTC)",
    "bytes/s",
    tuple(f"{hour:02}:00" for hour in range(24)),
    (
        Series("tenant/namespace/0x00000000_0x80000000", tuple(n * 1e5 for n in range(24))),
        Series(f"{HOSTILE}/n/0x80000000_0xffffffff", (*(5e5,) * 23, None)),
    ),
)
BARS = Bars(
    "Foretold p99",
    Axis("p99 of imbalance", "ratio", 1.0, 1.4),
    (Level("as it is", 1.1), Level(f"tenant {HOSTILE} doubles", 1.37)),
    (Level("target", 1.15),),
)
POINTS = Points(
    f"Imbalance against load moved: {HOSTILE}",
    Axis("load moved", "% of all an hour", 0.0, 8.0),
    Axis("p99 of imbalance", "ratio", 1.0, 2.0),
    (
        Group("on the front", (Point("balance", 0.5, 1.1), Point("quick", 4.0, 1.05))),
        Group("beaten by another", (Point(HOSTILE, 7.25, 1.9),)),
    ),
)
LACKING = Missing("No back-test was given.", f"broker-ctl report --backtest {HOSTILE}")


def sample() -> Report:
    table = Table(
        "Brokers",
        (Column("broker"), Column("load", "bytes/s"), Column("ended", TIME), Column("is_up")),
        ((HOSTILE, 12_345_678.9, DAY_ONE_MS, True), ("b", 0.000123, None, False)),
        7,
    )
    return Report(
        HOSTILE,
        SPAN,
        (
            Section(
                "loads",
                "Load",
                ("In words.",),
                (Fact("p99", 1.2345), Fact("brokers", 12), Fact("fullest", HOSTILE)),
                (LINES, STACKS),
                (table,),
                "broker_loads",
                1234,
                SPAN,
            ),
            Section("heat", "Heat", charts=(HEAT,)),
            Section("what-if", "What if", charts=(BARS,)),
            Section("front", "Back-test", charts=(POINTS,)),
            Section("lacking", "What is not there", missing=(LACKING,)),
        ),
    )
