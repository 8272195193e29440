"""The report as one HTML file: no script, and nothing from elsewhere."""

from collections.abc import Iterator
from typing import Final

from broker_ctl.pipeline.report.drawing import drawn
from broker_ctl.pipeline.report.figures import figure, moment, shown
from broker_ctl.pipeline.report.style import STYLE
from broker_ctl.pipeline.report.tabling import drawn_table
from broker_ctl.pipeline.report.values import Fact, Report, Section, Span

# A browser holds to it, whatever a name in the history tries to be.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report) -> str:
    """The whole file; all that comes from outside is escaped."""
    return "\n".join(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    title = f"Cluster {report.cluster}"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield f"<title>{shown(title)}</title><style>{STYLE}</style></head><body>"
    yield f"<header><h1>{shown(title)}</h1>"
    yield f'<p class="soft">broker-ctl pipeline report{_over(report.span)}. Times are UTC.</p>'
    yield "</header><nav aria-label=Contents><ul>"
    for section in report.sections:
        yield f'<li><a href="#{section.name}">{shown(section.title)}</a></li>'
    yield "</ul></nav><main>"
    for section in report.sections:
        yield from _section(section)
    yield "</main></body></html>"


def _section(section: Section) -> Iterator[str]:
    yield f'<section id="{section.name}"><h2>{shown(section.title)}</h2>'
    for sentence in section.says:
        yield f"<p>{shown(sentence)}</p>"
    for missing in section.missing:
        yield f'<p class="missing">{shown(missing.what)} <code>{shown(missing.command)}</code></p>'
    if section.facts:
        yield f'<dl class="facts">{"".join(map(_fact, section.facts))}</dl>'
    for number, chart in enumerate(section.charts):
        yield drawn(chart, f"{section.name}-{number}")
    for table in section.tables:
        yield drawn_table(table)
    if section.source:
        rows = f"{section.rows:,} row{'' if section.rows == 1 else 's'}"
        yield f'<p class="note">From {rows} of {shown(section.source)}{_over(section.span)}.</p>'
    yield "</section>"


def _fact(fact: Fact) -> str:
    """A number is beside it as it is, for whoever reads the page by program."""
    plain = "" if isinstance(fact.value, str) or fact.value is None else f' data-v="{fact.value!r}"'
    unit = f" <small>{shown(fact.unit)}</small>" if fact.unit else ""
    return (
        f"<div><dt>{shown(fact.says)}</dt><dd{plain}>{shown(figure(fact.value))}{unit}</dd></div>"
    )


def _over(span: Span | None) -> str:
    return "" if span is None else f", {moment(span.from_ms)} to {moment(span.to_ms)}"
