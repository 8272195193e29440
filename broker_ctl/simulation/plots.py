"""Pictures of a replay as SVG, by matplotlib."""

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.collections import EventCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.model.safe_text import printable
from broker_ctl.simulation.replay.cluster import after_warm_up

# Figures of matplotlib as SVG: for a page as well as for a file of its own, and in words, too.


# Of matplotlib's: a unit of the picture is a point.
POINTS_PER_INCH: Final = 72
_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_STYLE: Final[Mapping[str, Any]] = {
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.spines.bottom": False,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "figure.facecolor": "none",
    "font.size": 11.0,
    "grid.linewidth": 1.0,
    "lines.dash_capstyle": "round",
    "lines.linewidth": 1.6,
    "lines.scale_dashes": False,
    "lines.solid_capstyle": "round",
    # What is drawn is what the numbers say: no point is left out, none is shifted to a pixel.
    "path.simplify": False,
    "path.snap": False,
    # Text is text: no outlines of letters, and no formulas in names from outside.
    "svg.fonttype": "none",
    "text.parse_math": False,
    "xtick.major.pad": 7.0,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
}
# A browser has more glyphs than the font that matplotlib measures with.
_MISSING_GLYPH: Final = "Glyph .* missing from"
_NUMBER: Final = re.compile(r"-?\d+\.\d{4,}")


class Words(NamedTuple):
    """For those who do not see a picture: its title, and what it shows."""

    title: str
    says: str


def svg(
    draw: Callable[[], Figure],
    name: str,
    words: Words,
    tips: Mapping[str, Sequence[str]] = {},
    restyle: Callable[[str], str] = str,
) -> str:
    """An ``svg`` element without a script, a date, or anything from elsewhere.

    The same figure is the same text.

    Args:
        draw: makes the figure; artists whose gid begins with ``name`` keep it as their id.
        name: no other picture of the page has one that begins like it.
        words: its title and description.
        tips: by gid: what each of the artist's shapes says to who points at it.
        restyle: gets the CSS of each shape, and gives the one to use.
    """
    file = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    rules = {**_STYLE, "svg.hashsalt": name}
    # The user's matplotlibrc is ignored.
    with style.context(rules, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", _MISSING_GLYPH, UserWarning)
        draw().savefig(file, format="svg", metadata=nothing)
    root, by_id = ET.XMLID(file.getvalue())
    for gid, texts in tips.items():
        for shape, text in zip(_shapes(by_id[gid]), texts, strict=True):
            ET.SubElement(shape, f"{{{_NAMESPACE}}}title").text = printable(text)
    _plain(root, name, restyle)
    _describe(root, name, words)
    return ET.tostring(root, encoding="unicode")


def _shapes(group: ET.Element) -> list[ET.Element]:
    """Of one artist: paths, or uses of one path."""
    found = [*group.iter(f"{{{_NAMESPACE}}}use")]
    return found or [*group.iter(f"{{{_NAMESPACE}}}path")]


def _plain(root: ET.Element, name: str, restyle: Callable[[str], str]) -> None:
    """Without namespaces, and without ids that another picture of the same page has as well."""
    for parent in [*root.iter()]:
        for child in [*parent]:
            if child.tag.rpartition("}")[2] in {"metadata", "style"}:
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        # Clips and markers are named by a digest, with ``name`` in it.
        if element.tag == "g" and not attributes.get("id", "").startswith(name):
            attributes.pop("id", None)
        if "d" in attributes:
            attributes["d"] = " ".join(_NUMBER.sub(_round, attributes["d"]).split())
        if "style" in attributes:
            attributes["style"] = restyle(attributes["style"])
        element.attrib = attributes
        element.tail = "\n" if element.tag == "g" else None
        element.text = element.text if element.tag in {"text", "title"} else None


def _round(number: re.Match[str]) -> str:
    return f"{float(number[0]):.3f}"


def _describe(root: ET.Element, name: str, words: Words) -> None:
    root.attrib |= {"xmlns": _NAMESPACE, "role": "img"}
    for place, (tag, reference, text) in enumerate(
        (("title", "aria-labelledby", words.title), ("desc", "aria-describedby", words.says))
    ):
        root.set(reference, f"{name}-{tag}")
        described = ET.Element(tag, id=f"{name}-{tag}")
        described.text = printable(text)
        root.insert(place, described)
    # In a style sheet, as matplotlib has them, they would be those of the whole page.
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}


# What is plotted of replays.


_HOUR_MIN: Final = 60
_TIME_STEPS_MIN: Final = (1, 5, 15, 30, 60, 120, 180, 240, 360, 720, 1440, 2880)
_MOST_TIMES: Final = 8
_LEAST_TOP: Final = 1.1


@dataclass(frozen=True, slots=True, eq=False)
class PlotCurve:
    """One policy.

    Attributes:
        ratios: largest usage over mean usage, by minute; the first is minute 0.
        moves: the minute of each move.
    """

    label: str
    ratios: Floats
    moves: tuple[int, ...] = ()

    @property
    def moves_text(self) -> str:
        """For people: ``12 moves``."""
        return f"{len(self.moves)} move{'' if len(self.moves) == 1 else 's'}"


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Policies in one scenario: curves of equal length, one at least.

    Attributes:
        bound: what no placement can beat.
    """

    title: str
    bound: float
    curves: Sequence[PlotCurve]

    @property
    def minutes(self) -> int:
        """How long it goes on."""
        return len(self.curves[0].ratios)

    @property
    def top(self) -> float:
        """The largest ratio that is shown; what the first minutes are like may be cut off."""
        most = (float(after_warm_up(curve.ratios).max()) for curve in self.curves)
        return max(_LEAST_TOP, self.bound, *most)


def spans(series: Floats, columns: int) -> Iterator[tuple[float, float]]:
    """Lowest and highest value in each column: a peak of one minute is seen at any width."""
    count = len(series)
    for column in range(columns):
        start = column * count // columns
        part = series[start : max(start + 1, (column + 1) * count // columns)]
        yield float(part.min()), float(part.max())


def counts(minutes: Sequence[int], total: int, columns: int) -> NDArray[np.int64]:
    """How many of ``minutes``, each less than ``total``, fall into each column."""
    places = np.array(minutes, dtype=np.int64) * columns // total
    return np.bincount(places, minlength=columns).astype(np.int64)


def times(minutes: int) -> Iterator[tuple[int, str]]:
    """Where the axis has a mark, and what it says."""
    fitting = (step for step in _TIME_STEPS_MIN if minutes // step <= _MOST_TIMES)
    step = next(fitting, _TIME_STEPS_MIN[-1])
    for minute in range(0, minutes + 1, step):
        is_hours = step >= _HOUR_MIN
        yield minute, f"{minute // _HOUR_MIN} h" if is_hours else f"{minute} min"


# Plots of replays as one picture: a chart for each scenario, one below the other.


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


def _label(curve: PlotCurve) -> str:
    return f"{curve.label}, {curve.moves_text}"


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]
