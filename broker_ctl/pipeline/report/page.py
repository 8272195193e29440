"""The page of a report, with its tables and charts."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from broker_ctl.core.model.safe_text import printable
from broker_ctl.pipeline.report.charts import highest, legend, pictures
from broker_ctl.pipeline.report.values import (
    TIME,
    Chart,
    ChartBars,
    Heat,
    Lines,
    Points,
    Report,
    ReportTable,
    Stacks,
    TableColumn,
    figure,
    moment,
)

# The values of a chart as a table.


_TIME: Final = TableColumn("time", TIME)


def chart_table(chart: Chart) -> ReportTable:
    """All values that a chart shows."""
    match chart:
        case Lines() | Stacks():
            more = chart.within if isinstance(chart, Lines) else ()
            series = (*chart.series, *more)
            columns = tuple(TableColumn(each.label, chart.y.unit) for each in series)
            values = zip(chart.xs, *(each.values for each in series), strict=True)
            return ReportTable("", (_TIME, *columns), tuple(values))
        case Heat():
            columns = tuple(TableColumn(each, chart.unit) for each in chart.columns)
            rows = tuple((row.label, *row.values) for row in chart.rows)
            return ReportTable("", (TableColumn(""), *columns), rows)
        case ChartBars():
            columns = (TableColumn(""), TableColumn(chart.x.says, chart.x.unit))
            return ReportTable("", columns, tuple((each.label, each.value) for each in chart.bars))
        case Points():
            columns = (
                TableColumn(""),
                TableColumn("kind"),
                TableColumn(chart.x.says, chart.x.unit),
                TableColumn(chart.y.says, chart.y.unit),
            )
            points = tuple(
                (point.label, group.label, point.x, point.y)
                for group in chart.groups
                for point in group.points
            )
            return ReportTable("", columns, points)


# The report as one HTML file: no script, and nothing from elsewhere.


def page(report: Report) -> str:
    """The whole file; all that comes from outside is escaped."""
    return _templates().get_template("page.html").render(report=report)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("broker_ctl.pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "exact": repr,
        "figure": figure,
        "highest": highest,
        "legend": legend,
        "moment": moment,
        "pictures": _pictures,
        "table": chart_table,
    }
    return environment


def _visible(value: Any) -> Any:
    """Markup has been through here, piece by piece."""
    return value if isinstance(value, Markup) else printable(str(value))


def _pictures(chart: Chart, name: str) -> Iterator[tuple[str, Markup]]:
    for size, picture in pictures(chart, name):
        yield size, Markup(picture)  # noqa: S704  an XML library has written it
