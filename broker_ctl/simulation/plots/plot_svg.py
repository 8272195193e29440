"""Plots of replays as one picture: a chart for each scenario, one below the other."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from matplotlib.axes import Axes
from matplotlib.collections import EventCollection
from matplotlib.figure import Figure

from broker_ctl.core.model.printable import printable
from broker_ctl.simulation.plots.chart import Chart, Curve, counts, spans, times
from broker_ctl.simulation.plots.svg import POINTS_PER_INCH, Words, svg

# Okabe and Ito: readers with a colour vision deficiency can distinguish them.
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_INK: Final = "#222222"
_GRID: Final = "#dddddd"
_NAME: Final = "replays"
_WIDTH: Final = 960
_LEFT: Final = 56
_PLOT_WIDTH: Final = 720
_PLOT_HEIGHT: Final = 260
_HEAD: Final = 40
# Between a chart's curves and the lanes of its moves.
_GAP: Final = 8
_LANE: Final = 14
_FOOT: Final = 40


def svg_plot(charts: Sequence[Chart]) -> str:
    """A whole file; the texts in it are escaped, nothing is loaded from elsewhere."""
    says = ". ".join(f"{chart.title}: {', '.join(map(_label, chart.curves))}" for chart in charts)
    return svg(lambda: _figure(charts), _NAME, Words("Imbalance of replays", says)) + "\n"


def _figure(charts: Sequence[Chart]) -> Figure:
    *tops, whole = accumulate((_height(chart) for chart in charts), initial=0)
    inches = _WIDTH / POINTS_PER_INCH, whole / POINTS_PER_INCH
    figure = Figure(figsize=inches, dpi=POINTS_PER_INCH, facecolor="white")
    for number, (chart, top) in enumerate(zip(charts, tops, strict=True)):
        lanes = _LANE * len(chart.curves)
        upper = whole - top - _HEAD - _PLOT_HEIGHT
        left, width = _LEFT / _WIDTH, _PLOT_WIDTH / _WIDTH
        curves = figure.add_axes((left, upper / whole, width, _PLOT_HEIGHT / whole))
        moves = figure.add_axes((left, (upper - _GAP - lanes) / whole, width, lanes / whole))
        for axes in (curves, moves):
            axes.set_xlim(0, chart.minutes)
            axes.grid(color=_GRID)
            axes.tick_params(labelcolor=_INK)
        _draw_curves(curves, chart, f"{_NAME}-{number}")
        _draw_moves(moves, chart, f"{_NAME}-{number}")
    return figure


def _draw_curves(axes: Axes, chart: Chart, name: str) -> None:
    """What is beyond the scale is cut off."""
    axes.set_title(printable(chart.title), fontsize=15, color=_INK)
    axes.set_ylim(1, chart.top)
    axes.yaxis.set_major_formatter("{x:.2f}")
    axes.set_xticks([minute for minute, _ in times(chart.minutes)], labels=[])
    bound = f"bound {chart.bound:.3f}"
    axes.axhline(chart.bound, color=_INK, linestyle="dashed", linewidth=1, label=bound)
    for number, curve in enumerate(chart.curves):
        # As fine as can be seen: a column of two points for each unit of width.
        columns = min(len(curve.ratios), _PLOT_WIDTH)
        points: list[tuple[float, float]] = []
        for column, (low, high) in enumerate(spans(curve.ratios, columns)):
            x = chart.minutes * (column + 0.5) / columns
            points += [(x, high)] if low == high else [(x, high), (x, low)]
        gid, colour = f"{name}-curve-{number}", _colour(number)
        axes.plot(
            *zip(*points, strict=True), color=colour, linewidth=1, label=_label(curve), gid=gid
        )
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, labelcolor="linecolor")


def _draw_moves(axes: Axes, chart: Chart, name: str) -> None:
    """One mark for each unit of width in which something moved."""
    axes.set_ylim(len(chart.curves), 0)
    axes.set_yticks([0.5], labels=["moves"])
    axes.grid(visible=False, axis="y")
    minutes, labels = zip(*times(chart.minutes), strict=True)
    axes.set_xticks(minutes, labels=labels)
    columns = min(chart.minutes, _PLOT_WIDTH)
    for number, curve in enumerate(chart.curves):
        found = counts(curve.moves, chart.minutes, columns).nonzero()[0]
        places = (found + 0.5) * chart.minutes / columns
        marks = EventCollection(places, lineoffset=number + 0.5, linelength=0.65, linewidth=1)
        marks.set(color=_colour(number), gid=f"{name}-moves-{number}")
        axes.add_collection(marks, autolim=False)


def _height(chart: Chart) -> int:
    return _HEAD + _PLOT_HEIGHT + _GAP + _LANE * len(chart.curves) + _FOOT


def _label(curve: Curve) -> str:
    return f"{curve.label}, {curve.moves_text}"


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]
