"""The values of a chart as a table."""

from typing import Final

from broker_ctl.pipeline.report.figures import TIME
from broker_ctl.pipeline.report.values import (
    Bars,
    Chart,
    Column,
    Heat,
    Lines,
    Points,
    Stacks,
    Table,
)

_TIME: Final = Column("time", TIME)


def chart_table(chart: Chart) -> Table:
    """All values that a chart shows."""
    match chart:
        case Lines() | Stacks():
            more = chart.within if isinstance(chart, Lines) else ()
            series = (*chart.series, *more)
            columns = tuple(Column(each.label, chart.y.unit) for each in series)
            values = zip(chart.xs, *(each.values for each in series), strict=True)
            return Table("", (_TIME, *columns), tuple(values))
        case Heat():
            columns = tuple(Column(each, chart.unit) for each in chart.columns)
            rows = tuple((row.label, *row.values) for row in chart.rows)
            return Table("", (Column(""), *columns), rows)
        case Bars():
            columns = (Column(""), Column(chart.x.says, chart.x.unit))
            return Table("", columns, tuple((each.label, each.value) for each in chart.bars))
        case Points():
            columns = (
                Column(""),
                Column("kind"),
                Column(chart.x.says, chart.x.unit),
                Column(chart.y.says, chart.y.unit),
            )
            points = tuple(
                (point.label, group.label, point.x, point.y)
                for group in chart.groups
                for point in group.points
            )
            return Table("", columns, points)
