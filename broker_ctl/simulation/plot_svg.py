"""Plots of replays as one picture (SVG 1.1): a chart for each scenario, one below the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from broker_ctl.simulation.chart import Chart, Curve, counts, spans, times

# Told apart by those who see fewer colours as well (Okabe and Ito).
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_WIDTH: Final = 960
_LEFT: Final = 56
_PLOT_WIDTH: Final = 720
_PLOT_HEIGHT: Final = 260
_HEAD: Final = 40
_LANE: Final = 14
_FOOT: Final = 40
_LEGEND_LINE: Final = 20
_RATIO_STEPS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_MOST_RATIOS: Final = 6
_STYLE: Final = "text{font:12px sans-serif;fill:#222}.title{font-size:15px}.axis{stroke:#ddd}"


def svg_plot(charts: Sequence[Chart]) -> str:
    """A whole file; the texts in it are escaped, nothing is loaded from elsewhere."""
    frames: list[_Frame] = []
    y = 0
    for chart in charts:
        frames.append(_Frame(chart, y + _HEAD))
        y += frames[-1].height
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{y}" fill="#fff"/>',
            *(line for frame in frames for line in _drawn(frame)),
            "</svg>\n",
        )
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a chart lies: ``y`` is the upper end of its curves."""

    chart: Chart
    y: int

    @property
    def height(self) -> int:
        lanes = _LANE * len(self.chart.curves)
        return _HEAD + _PLOT_HEIGHT + lanes + _FOOT

    @property
    def lanes_y(self) -> int:
        return self.y + _PLOT_HEIGHT

    def x_of(self, minute: float) -> float:
        return _LEFT + _PLOT_WIDTH * minute / self.chart.minutes

    def y_of(self, ratio: float) -> float:
        """What is beyond the scale is at its end."""
        top = self.chart.top
        part = min(max((ratio - 1) / (top - 1), 0.0), 1.0)
        return self.y + _PLOT_HEIGHT * (1 - part)


def _drawn(frame: _Frame) -> Iterator[str]:
    chart = frame.chart
    yield _text(_LEFT, frame.y - 16, chart.title, 'class="title"')
    yield from _axes(frame)
    bound_y = frame.y_of(chart.bound)
    yield _line(_LEFT, bound_y, _LEFT + _PLOT_WIDTH, bound_y, 'stroke="#222" stroke-dasharray="4"')
    legend_x, legend_y = _LEFT + _PLOT_WIDTH + 16, frame.y + 10
    yield _text(legend_x, legend_y, f"- - bound {chart.bound:.3f}")
    for number, curve in enumerate(chart.curves):
        colour = _COLOURS[number % len(_COLOURS)]
        y = legend_y + _LEGEND_LINE * (number + 1)
        label = f"{curve.label}, {curve.moves_text}"
        yield _text(legend_x, y, label, f'style="fill:{colour}"')
        yield _path(frame, curve, colour)
        yield from _ticks(frame, number, curve, colour)


def _axes(frame: _Frame) -> Iterator[str]:
    right, foot = _LEFT + _PLOT_WIDTH, frame.lanes_y + _LANE * len(frame.chart.curves)
    for ratio in _ratios(frame.chart.top):
        y = frame.y_of(ratio)
        yield _line(_LEFT, y, right, y, 'class="axis"')
        yield _text(_LEFT - 6, y + 4, f"{ratio:.2f}", 'text-anchor="end"')
    for minute, label in times(frame.chart.minutes):
        x = frame.x_of(minute)
        yield _line(x, frame.y, x, foot, 'class="axis"')
        yield _text(x, foot + 16, label, 'text-anchor="middle"')
    yield _text(_LEFT - 6, frame.lanes_y + _LANE - 2, "moves", 'text-anchor="end"')


def _ratios(top: float) -> Iterator[float]:
    fitting = (step for step in _RATIO_STEPS if (top - 1) / step <= _MOST_RATIOS)
    step = next(fitting, (top - 1) / _MOST_RATIOS)
    # The last one may be short of its line by what sums of such numbers lose.
    for number in range(int((top - 1) / step + 1e-9) + 1):
        yield 1 + step * number


def _path(frame: _Frame, curve: Curve, colour: str) -> str:
    """As fine as can be seen: a column of two points for each unit of width."""
    columns = min(len(curve.ratios), _PLOT_WIDTH)
    points: list[str] = []
    for column, (low, high) in enumerate(spans(curve.ratios, columns)):
        x = _LEFT + _PLOT_WIDTH * (column + 0.5) / columns
        points.append(f"{x:.1f},{frame.y_of(high):.1f}")
        if low != high:
            points.append(f"{x:.1f},{frame.y_of(low):.1f}")
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}"/>'


def _ticks(frame: _Frame, number: int, curve: Curve, colour: str) -> Iterator[str]:
    """One for each unit of width in which something moved."""
    minutes = frame.chart.minutes
    y = frame.lanes_y + _LANE * number
    columns = min(minutes, _PLOT_WIDTH)
    for column, count in enumerate(counts(curve.moves, minutes, columns).tolist()):
        if count:
            x = _LEFT + _PLOT_WIDTH * (column + 0.5) / columns
            yield _line(x, y + 3, x, y + _LANE - 2, f'stroke="{colour}"')


def _line(x1: float, y1: float, x2: float, y2: float, attributes: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    # XML has no form for control characters at all.
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(shown)}</text>'
