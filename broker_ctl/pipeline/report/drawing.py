"""Charts as HTML with SVG in it: marks are stretched with the page, text never is.

What a chart shows can be read back from it: places of lines and points are thousandths of the axes,
whose ends stand in ``data-x`` and ``data-y``; see `tests/pipeline/report`. Every chart comes with
its values as a table.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from itertools import groupby
from typing import Any, Final

from broker_ctl.pipeline.report.figures import TIME, figure, moment, printable
from broker_ctl.pipeline.report.scales import marks, part_of
from broker_ctl.pipeline.report.values import (
    Axis,
    Bars,
    Chart,
    Heat,
    Level,
    Lines,
    Points,
    Series,
    Stacks,
)

_SIZE: Final = 1000
COLOURS: Final = 8
# A label so near to an end does not stand over its mark but within the chart.
_EDGE: Final = 0.06


def drawn(chart: Chart) -> str:
    """The inside of a figure."""
    return "\n".join(_BODIES[type(chart)](chart))


def _lines(chart: Lines) -> Iterator[str]:
    yield from _legend(
        [(_colour(place), each.label) for place, each in enumerate(chart.series)],
        _level_keys(chart.levels),
        [("area", " to ".join(each.label for each in chart.within))] if chart.within else [],
    )
    middles = [each + chart.width_ms / 2 for each in chart.xs]
    shapes: list[str] = []
    if chart.within:
        shapes.append(f'<path class="area" d="{_area(chart, middles)}"/>')
    shapes += _levels(chart.y, chart.levels)
    for place, series in enumerate(chart.series):
        path = _path(chart, middles, series)
        label = shown(series.label)
        shapes.append(f'<path class="line {_colour(place)}" data-series="{label}" d="{path}"/>')
    yield from _plot(chart.title, chart.x, chart.y, shapes)


def _stacks(chart: Stacks) -> Iterator[str]:
    yield from _legend([(_colour(place), each.label) for place, each in enumerate(chart.series)])
    shapes: list[str] = []
    heights = [0.0] * len(chart.xs)
    for place, series in enumerate(chart.series):
        for column, (x, value) in enumerate(zip(chart.xs, series.values, strict=True)):
            if not value:
                continue
            low, heights[column] = heights[column], heights[column] + value
            told = f"{series.label}, {moment(x)}: {figure(value)} {chart.y.unit}"
            shapes.append(_box(chart, place, (x, low, value), told))
    yield from _plot(chart.title, chart.x, chart.y, shapes)


def _box(chart: Stacks, place: int, what: tuple[float, float, float], told: str) -> str:
    x, low, value = what
    left, right = _x(chart.x, x), _x(chart.x, x + chart.width_ms)
    top, foot = _y(chart.y, low + value), _y(chart.y, low)
    return (
        f'<rect class="box {_colour(place)}" data-place="{place}" x="{left:.2f}" y="{top:.2f}"'
        f' width="{right - left:.2f}" height="{foot - top:.2f}"><title>{shown(told)}</title></rect>'
    )


def _points(chart: Points) -> Iterator[str]:
    yield from _legend([(_colour(place), each.label) for place, each in enumerate(chart.groups)])
    shapes: list[str] = []
    for place, group in enumerate(chart.groups):
        for point in group.points:
            x, y = _x(chart.x, point.x), _y(chart.y, point.y)
            told = (
                f"{point.label}: {figure(point.x)} {chart.x.unit}, {figure(point.y)} {chart.y.unit}"
            )
            shapes.append(
                f'<path class="point {_colour(place)}" data-place="{place}"'
                f' d="M{x:.2f},{y:.2f}h0"><title>{shown(told)}</title></path>'
            )
    yield from _plot(chart.title, chart.x, chart.y, shapes)


def _heat(chart: Heat) -> Iterator[str]:
    known = [value for row in chart.rows for value in row.values if value is not None]
    most = max(known, default=0.0)
    shades = "".join(f'<i style="opacity:{part / 4:.2f}"></i>' for part in range(1, 5))
    yield (
        f'<p class="legend">0 <span class="shades">{shades}</span>'
        f" {shown(figure(most))} {shown(chart.unit)}</p>"
    )
    label = f"{chart.title}: {chart.says}, {chart.unit}; {len(chart.rows)} rows. {_SAID}"
    yield f'<div class="strips" role="img" aria-label="{shown(label)}">'
    for row in chart.rows:
        yield f'<div class="strip"><span class="who">{shown(row.label)}</span>'
        yield f'<svg viewBox="0 0 {len(chart.columns)} 1" preserveAspectRatio="none">'
        for place, value in enumerate(row.values):
            if value is not None:
                told = f"{row.label}, {chart.columns[place]}: {figure(value)} {chart.unit}"
                shade = value / most if most > 0 else 0.0
                yield (
                    f'<rect class="cell" x="{place}" width="1" height="1" data-v="{value!r}"'
                    f' fill-opacity="{shade:.4f}"><title>{shown(told)}</title></rect>'
                )
        yield "</svg></div>"
    # Every sixth column has its name, where it begins.
    count = len(chart.columns)
    named = [(place / count, each) for place, each in enumerate(chart.columns) if place % 6 == 0]
    yield f'<div class="strip feet"><span></span><div class="x">{_labels(named)}</div></div></div>'
    yield f'<p class="axes">{shown(chart.says)}</p>'


def _bars(chart: Bars) -> Iterator[str]:
    yield from _legend(_level_keys(chart.levels))
    label = f"{chart.title}: {chart.x.says}, {chart.x.unit}; {len(chart.bars)} bars. {_SAID}"
    yield f'<div class="strips" role="img" aria-label="{shown(label)}" {_ends("x", chart.x)}>'
    for bar in chart.bars:
        yield f'<div class="strip"><span class="who">{shown(bar.label)}'
        yield f" <b>{shown(figure(bar.value))}</b></span>"
        yield f'<svg viewBox="0 0 {_SIZE} 1" preserveAspectRatio="none">'
        told = f"{bar.label}: {figure(bar.value)} {chart.x.unit}"
        yield (
            f'<rect class="box c0" x="0" y="0.15" height="0.7" data-v="{bar.value!r}"'
            f' width="{_x(chart.x, bar.value):.2f}"><title>{shown(told)}</title></rect>'
        )
        for place, level in enumerate(chart.levels):
            yield f'<path class="{_level(place)}" d="M{_x(chart.x, level.value):.2f},0v1"/>'
        yield "</svg></div>"
    named = [(part_of(chart.x, each.value), each.label) for each in marks(chart.x)]
    yield f'<div class="strip feet"><span></span><div class="x">{_labels(named)}</div></div></div>'
    yield f'<p class="axes">{_told(chart.x)}</p>'


_BODIES: Final[Mapping[type, Callable[[Any], Iterable[str]]]] = {
    Lines: _lines,
    Stacks: _stacks,
    Points: _points,
    Heat: _heat,
    Bars: _bars,
}
_SAID: Final = "The values stand in the table below."


def _plot(title: str, x: Axis, y: Axis, shapes: Iterable[str]) -> Iterator[str]:
    """Both axes around the shapes."""
    rises = [(part_of(y, each.value), each.label) for each in marks(y)]
    ticks = [(part_of(x, each.value), each.label) for each in marks(x)]
    ends = f"{figure(x.low, x.unit)} to {figure(x.high, x.unit)}"
    label = f"{title}: {y.says} ({y.unit}) by {x.says} ({x.unit}), {ends}. {_SAID}"
    yield '<div class="plot"><div class="y" aria-hidden="true">'
    yield "".join(
        f'<span style="bottom:{part * 100:.2f}%">{shown(each)}</span>' for part, each in rises
    )
    yield (
        f'</div><svg class="area-of" role="img" aria-label="{shown(label)}"'
        f' viewBox="0 0 {_SIZE} {_SIZE}" preserveAspectRatio="none"'
        f" {_ends('x', x)} {_ends('y', y)}>"
    )
    for part, _ in rises:
        yield f'<path class="grid" d="M0,{_SIZE * (1 - part):.2f}h{_SIZE}"/>'
    for part, _ in ticks:
        yield f'<path class="grid" d="M{_SIZE * part:.2f},0v{_SIZE}"/>'
    yield from shapes
    yield f'</svg><div class="x" aria-hidden="true">{_labels(ticks)}</div></div>'
    yield f'<p class="axes">↑ {_told(y)} · → {_told(x)}</p>'


def _legend(*groups: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A key and a label for each."""
    yield '<ul class="legend">'
    for class_, label in (each for group in groups for each in group):
        yield (
            f'<li><svg class="key" viewBox="0 0 22 10" aria-hidden="true">'
            f'<path class="{class_}" d="M1,5H21"/></svg>{shown(label)}</li>'
        )
    yield "</ul>"


def _levels(y: Axis, levels: Iterable[Level]) -> list[str]:
    return [
        f'<path class="{_level(place)}" data-level="{each.value!r}"'
        f' d="M0,{_y(y, each.value):.2f}h{_SIZE}"/>'
        for place, each in enumerate(levels)
    ]


def _level_keys(levels: Iterable[Level]) -> list[tuple[str, str]]:
    return [
        (_level(place), f"{each.label} ({figure(each.value)})") for place, each in enumerate(levels)
    ]


def _level(place: int) -> str:
    """Two kinds of dashes: more than two levels no chart has."""
    return f"level l{place % 2}"


def _path(chart: Lines, middles: list[float], series: Series) -> str:
    """A run for each stretch without gaps; one value alone is a dot."""
    places = zip(middles, series.values, strict=True)
    runs: list[str] = []
    for is_known, some in groupby(places, lambda each: each[1] is not None):
        if is_known:
            run = [f"{_x(chart.x, x):.2f},{_y(chart.y, y or 0.0):.2f}" for x, y in some]
            runs.append("M" + "L".join(run) + ("h0" if len(run) == 1 else ""))
    return "".join(runs)


def _area(chart: Lines, middles: list[float]) -> str:
    """A piece for each stretch without gaps: there along its upper end, and back."""
    low, high = (each.values for each in chart.within)
    pieces: list[str] = []
    for is_known, some in groupby(range(len(low)), lambda place: low[place] is not None):
        if is_known:
            run = list(some)
            there = [(middles[place], high[place]) for place in run]
            back = [(middles[place], low[place]) for place in reversed(run)]
            ends = (f"{_x(chart.x, x):.2f},{_y(chart.y, y or 0.0):.2f}" for x, y in there + back)
            pieces.append("M" + "L".join(ends) + "Z")
    return "".join(pieces)


def _labels(named: Iterable[tuple[float, str]]) -> str:
    def shift(part: float) -> int:
        return 0 if part < _EDGE else 100 if part > 1 - _EDGE else 50

    return "".join(
        f'<span style="left:{part * 100:.2f}%;transform:translateX(-{shift(part)}%)">'
        f"{shown(each)}</span>"
        for part, each in named
    )


def _ends(name: str, of: Axis) -> str:
    return f'data-{name}="{of.low!r} {of.high!r}"'


def _told(of: Axis) -> str:
    return shown(f"{of.says}, {of.unit}" if of.unit != TIME else f"{of.says} (UTC)")


def _x(of: Axis, value: float) -> float:
    return _SIZE * part_of(of, value)


def _y(of: Axis, value: float) -> float:
    return _SIZE * (1 - part_of(of, value))


def _colour(place: int) -> str:
    return f"c{place % COLOURS}"


def shown(text: str) -> str:
    """A text of the chart, escaped."""
    return escape(printable(text))
