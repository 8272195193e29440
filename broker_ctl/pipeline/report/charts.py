"""Charts as pictures: one for a screen, one for a telephone; and their legends.

What a chart shows can be read back from it: see ``tests/pipeline/report``. Every chart comes with
its values as a table.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from broker_ctl.pipeline.report.canvas import (
    DAY_MS,
    INK,
    SIZES,
    CanvasSize,
    mark_below,
    plot,
    restyle,
    strips,
)
from broker_ctl.pipeline.report.values import (
    Chart,
    ChartBars,
    ChartLevel,
    Heat,
    Lines,
    Points,
    Stacks,
    figure,
    moment,
)
from broker_ctl.simulation.plots import Words, svg

_COLOURS: Final = 8
_DASHES: Final = ((), (7, 3), (2, 3))
_LEVEL_DASHES: Final = ((2, 3), (9, 4))
_SAID: Final = "The values stand in the table below."


class ChartKey(NamedTuple):
    """What a legend says of one kind of marks: ``shape`` is a line, an area or a point."""

    label: str
    shape: str
    colour: str
    dashes: tuple[int, ...] = ()


class _Sheet(NamedTuple):
    """One picture of a chart that is being drawn; ``tips`` are filled on the way."""

    size: CanvasSize
    name: str
    tips: dict[str, list[str]]

    def shapes(self, axes: Axes, kind: str, corners: Any, tips: list[str], **style: Any) -> None:
        """Polygons that say something to who points at them."""
        gid = f"{self.name}-{kind}"
        if tips:
            shapes = PolyCollection(corners, gid=gid, clip_on=False, linewidth=0, **style)
            axes.add_collection(shapes, autolim=False)
            self.tips[gid] = tips


def pictures(chart: Chart, name: str) -> Iterator[tuple[str, str]]:
    """For each size its name, and the picture as SVG; ``name`` is the chart's own on the page."""
    for size in SIZES:
        sheet = _Sheet(size, f"{name}-{size.name}", {})

        def draw(sheet: _Sheet = sheet) -> Figure:
            figure = _BODIES[type(chart)](sheet, chart).get_figure(root=True)
            assert figure is not None
            return figure

        says = f"{_words(chart)} {_SAID}"
        # Nobody points at anything on a telephone.
        tips = sheet.tips if size is SIZES[0] else {}
        yield size.name, svg(draw, sheet.name, Words(chart.title, says), tips, restyle)


def legend(chart: Chart) -> Iterator[ChartKey]:
    """In the order of the marks; of shades there is none."""
    match chart:
        case Lines():
            for place, series in enumerate(chart.series):
                yield ChartKey(series.label, "line", _colour(place), _dashes(place))
            yield from _level_keys(chart.levels)
            if chart.within:
                yield ChartKey(" to ".join(each.label for each in chart.within), "area", "soft")
        case Stacks():
            for place, series in enumerate(chart.series):
                yield ChartKey(series.label, "box", _colour(place))
        case Points():
            for place, group in enumerate(chart.groups):
                yield ChartKey(group.label, "point", _colour(place))
        case ChartBars():
            yield from _level_keys(chart.levels)


def _lines(sheet: _Sheet, chart: Lines) -> Axes:
    axes = plot(sheet.size, chart.x, chart.y)
    middles = [(each + chart.width_ms / 2) / DAY_MS for each in chart.xs]
    if chart.within:
        low, high = (_numbers(each.values) for each in chart.within)
        area = axes.fill_between(middles, low, high, gid=f"{sheet.name}-area")
        area.set(facecolor=INK["soft"], alpha=0.22, linewidth=0)
    _levels(sheet, chart.levels, axes.axhline)
    for place, series in enumerate(chart.series):
        axes.plot(
            middles,
            _numbers(series.values),
            color=INK[_colour(place)],
            dashes=_dashes(place),
            gid=f"{sheet.name}-line-{place}",
            marker=".",
            markevery=_alone(series.values),
        )
    return axes


def _stacks(sheet: _Sheet, chart: Stacks) -> Axes:
    axes = plot(sheet.size, chart.x, chart.y)
    heights = [0.0] * len(chart.xs)
    for place, series in enumerate(chart.series):
        corners, tips = [], []
        for column, (x, value) in enumerate(zip(chart.xs, series.values, strict=True)):
            if value:
                low, heights[column] = heights[column], heights[column] + value
                ends = (x / DAY_MS, (x + chart.width_ms) / DAY_MS)
                corners.append(_box(ends, (low, low + value)))
                tips.append(f"{series.label}, {moment(x)}: {figure(value)} {chart.y.unit}")
        colour = INK[_colour(place)]
        sheet.shapes(axes, f"boxes-{place}", corners, tips, facecolor=colour)
    return axes


def _points(sheet: _Sheet, chart: Points) -> Axes:
    axes = plot(sheet.size, chart.x, chart.y)
    for place, group in enumerate(chart.groups):
        gid = f"{sheet.name}-points-{place}"
        xs, ys = [each.x for each in group.points], [each.y for each in group.points]
        colour = INK[_colour(place)]
        axes.plot(xs, ys, "o", color=colour, markersize=7, clip_on=False, gid=gid)
        units = chart.x.unit, chart.y.unit
        sheet.tips[gid] = [
            f"{each.label}: {figure(each.x)} {units[0]}, {figure(each.y)} {units[1]}"
            for each in group.points
        ]
    return axes


def _heat(sheet: _Sheet, chart: Heat) -> Axes:
    axes, sides = strips(sheet.size, [row.label for row in chart.rows])
    columns = len(chart.columns)
    axes.set_xlim(0, columns)
    axes.set_xlabel(chart.says, color=INK["soft"], loc="left")
    # Every sixth column has its name, where it begins.
    axes.set_xticks(range(0, columns, 6), labels=chart.columns[::6])
    most = highest(chart)
    for place, (row, side) in enumerate(zip(chart.rows, sides, strict=True)):
        known = [(x, value) for x, value in enumerate(row.values) if value is not None]
        corners = [_box((x, x + 1), side) for x, _ in known]
        tips = [
            f"{row.label}, {chart.columns[x]}: {figure(value)} {chart.unit}" for x, value in known
        ]
        shades = [value / most if most > 0 else 0.0 for _, value in known]
        sheet.shapes(axes, f"boxes-{place}", corners, tips, facecolor=INK["heat"], alpha=shades)
    return axes


def _bars(sheet: _Sheet, chart: ChartBars) -> Axes:
    names = [f"{bar.label}: {figure(bar.value)}" for bar in chart.bars]
    axes, sides = strips(sheet.size, names)
    mark_below(axes, sheet.size, chart.x)
    ends = chart.x.low, chart.x.high
    grounds = PolyCollection([_box(ends, side) for side in sides], facecolor=INK["panel"], zorder=0)
    axes.add_collection(grounds, autolim=False)
    corners = [
        _box((chart.x.low, bar.value), side) for bar, side in zip(chart.bars, sides, strict=True)
    ]
    tips = [f"{bar.label}: {figure(bar.value)} {chart.x.unit}" for bar in chart.bars]
    sheet.shapes(axes, "boxes-0", corners, tips, facecolor=INK[_colour(0)])

    # Not across what stands above the strips.
    def cross(value: float, **style: Any) -> None:
        uppers, lowers = zip(*sides, strict=True)
        axes.vlines([value] * len(sides), uppers, lowers, **style)

    if sides:
        _levels(sheet, chart.levels, cross)
    return axes


_BODIES: Final[Mapping[type, Callable[[_Sheet, Any], Axes]]] = {
    Lines: _lines,
    Stacks: _stacks,
    Points: _points,
    Heat: _heat,
    ChartBars: _bars,
}


def highest(chart: Heat) -> float:
    """The value of the deepest shade."""
    known = (value for row in chart.rows for value in row.values if value is not None)
    return max(known, default=0.0)


def _words(chart: Chart) -> str:
    match chart:
        case Heat():
            return f"{chart.says}, {chart.unit}; {len(chart.rows)} rows."
        case ChartBars():
            return f"{chart.x.says}, {chart.x.unit}; {len(chart.bars)} bars."
        case _:
            x, y = chart.x, chart.y
            ends = f"{figure(x.low, x.unit)} to {figure(x.high, x.unit)}"
            return f"{y.says} ({y.unit}) by {x.says} ({x.unit}), {ends}."


def _levels(sheet: _Sheet, levels: Iterable[ChartLevel], draw: Callable[..., Any]) -> None:
    for place, level in enumerate(levels):
        gid = f"{sheet.name}-level-{place}"
        dashes = (0, _LEVEL_DASHES[place % 2])
        draw(level.value, color=INK["level"], linestyle=dashes, linewidth=1.4, gid=gid)


def _level_keys(levels: Iterable[ChartLevel]) -> Iterator[ChartKey]:
    """Two kinds of dashes: more than two levels no chart has."""
    for place, level in enumerate(levels):
        label = f"{level.label} ({figure(level.value)})"
        yield ChartKey(label, "line", "level", _LEVEL_DASHES[place % 2])


def _box(xs: tuple[float, float], ys: tuple[float, float]) -> list[tuple[float, float]]:
    return [(xs[0], ys[0]), (xs[0], ys[1]), (xs[1], ys[1]), (xs[1], ys[0])]


def _numbers(values: Iterable[float | None]) -> list[float]:
    """A gap where nothing is known."""
    return [float("nan") if each is None else each for each in values]


def _alone(values: Sequence[float | None]) -> list[int]:
    """Places of values between gaps, which no line would show."""
    known = [False, *(each is not None for each in values), False]
    pairs = [*pairwise(known)]
    starts = [place for place, pair in enumerate(pairs) if pair == (False, True)]
    return [place for place in starts if pairs[place + 1] == (True, False)]


def _colour(place: int) -> str:
    return f"c{place % _COLOURS}"


def _dashes(place: int) -> tuple[int, ...]:
    """From the fifth series on, dashes distinguish lines of the same colour."""
    return (_DASHES[0], _DASHES[0], *_DASHES[1:])[place % _COLOURS // 2]
