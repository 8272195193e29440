"""A report made by hand, with every kind of chart, and names that would like to be markup."""

from broker_ctl.pipeline.report.values import (
    TIME,
    ChartAxis,
    ChartBars,
    ChartGroup,
    ChartLevel,
    ChartPoint,
    ChartSeries,
    ChartSpan,
    Fact,
    Heat,
    Lines,
    Missing,
    Points,
    Report,
    ReportTable,
    Section,
    Stacks,
    TableColumn,
)
from tests.support.pipeline.segment_files import DAY_ONE_MS, HOUR_MS

HOSTILE = "\"><script>alert(1)</script><img src='http://127.0.0.1/x' onerror=alert(2)>&\u202e\x07"
MANY = 9
SPAN = ChartSpan(DAY_ONE_MS, DAY_ONE_MS + 4 * HOUR_MS)
_TIME = ChartAxis("time", TIME, *map(float, SPAN))
_XS = tuple(DAY_ONE_MS + hour * HOUR_MS for hour in range(4))
LINES = Lines(
    "Usage of brokers",
    _TIME,
    ChartAxis("usage", "%", 0.0, 80.0),
    _XS,
    HOUR_MS,
    (
        ChartSeries(HOSTILE, (10.0, None, 30.0, 70.5)),
        *(ChartSeries(f"broker-{n}", (n, n + 20.0, n + 10.0, n * 2.0)) for n in range(1, MANY)),
    ),
    (
        ChartSeries("lowest broker", (1.0, 2.0, None, 0.0)),
        ChartSeries("highest broker", (60.0, 70.0, None, 80.0)),
    ),
    (ChartLevel("mean", 33.3), ChartLevel("target", 50.0)),
)
STACKS = Stacks(
    "Load moved",
    _TIME,
    ChartAxis("moved an hour", "% of all load", 0.0, 5.0),
    _XS,
    HOUR_MS,
    (ChartSeries("band", (1.0, 0.0, 2.5, 0.25)), ChartSeries(HOSTILE, (0.5, 3.0, 2.0, 0.0))),
)
HEAT = Heat(
    "The hottest bundles",
    "hour of a usual day (UTC)",
    "bytes/s",
    tuple(f"{hour:02}:00" for hour in range(24)),
    (
        ChartSeries("tenant/namespace/0x00000000_0x80000000", tuple(n * 1e5 for n in range(24))),
        ChartSeries(f"{HOSTILE}/n/0x80000000_0xffffffff", (*(5e5,) * 23, None)),
    ),
)
BARS = ChartBars(
    "Foretold p99",
    ChartAxis("p99 of imbalance", "ratio", 1.0, 1.4),
    (ChartLevel("as it is", 1.1), ChartLevel(f"tenant {HOSTILE} doubles", 1.37)),
    (ChartLevel("target", 1.15),),
)
POINTS = Points(
    f"Imbalance against load moved: {HOSTILE}",
    ChartAxis("load moved", "% of all an hour", 0.0, 8.0),
    ChartAxis("p99 of imbalance", "ratio", 1.0, 2.0),
    (
        ChartGroup(
            "on the front", (ChartPoint("balance", 0.5, 1.1), ChartPoint("quick", 4.0, 1.05))
        ),
        ChartGroup("beaten by another", (ChartPoint(HOSTILE, 7.25, 1.9),)),
    ),
)
LACKING = Missing("No back-test was given.", f"broker-ctl report --backtest {HOSTILE}")


def sample() -> Report:
    table = ReportTable(
        "Brokers",
        (
            TableColumn("broker"),
            TableColumn("load", "bytes/s"),
            TableColumn("ended", TIME),
            TableColumn("is_up"),
        ),
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
