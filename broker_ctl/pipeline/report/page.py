"""The report as one HTML file: no script, and nothing from elsewhere."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from broker_ctl.core.model.printable import printable
from broker_ctl.pipeline.report.charts import highest, legend, pictures
from broker_ctl.pipeline.report.figures import figure, moment
from broker_ctl.pipeline.report.tabling import chart_table
from broker_ctl.pipeline.report.values import Chart, Report


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
