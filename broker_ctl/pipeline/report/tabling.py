"""Tables as HTML, and the values of a chart as a table."""

from collections.abc import Iterator
from typing import Final

from broker_ctl.pipeline.report.figures import TIME, figure, shown
from broker_ctl.pipeline.report.values import (
    Bars,
    Chart,
    Column,
    Heat,
    Lines,
    Points,
    Stacks,
    Table,
    Value,
)

_TIME: Final = Column("time", TIME)


def drawn_table(table: Table) -> str:
    """With a title, units in the head, and how many rows are left out."""
    return "\n".join(_parts(table))


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


def _parts(table: Table) -> Iterator[str]:
    yield '<div class="scroll" tabindex="0"><table>'
    if table.title:
        yield f"<caption>{shown(table.title)}</caption>"
    yield "<thead><tr>"
    yield "".join(f"<th scope=col>{_head(column)}</th>" for column in table.columns)
    yield "</tr></thead><tbody>"
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        yield "<tr>" + "".join(_cell(column, value) for column, value in cells) + "</tr>"
    yield "</tbody></table></div>"
    if table.left_out:
        are = "row is" if table.left_out == 1 else "rows are"
        yield f'<p class="note">{table.left_out:,} more {are} left out.</p>'


def _head(column: Column) -> str:
    unit = f" <small>{shown(column.unit)}</small>" if column.unit else ""
    return shown(column.name) + unit


def _cell(column: Column, value: Value) -> str:
    """A number as a reader wants it, and beside it as it is."""
    text = shown(figure(value, column.unit))
    if isinstance(value, str) or value is None:
        return f"<td>{text}</td>"
    return f'<td class="n" data-v="{value!r}">{text}</td>'
