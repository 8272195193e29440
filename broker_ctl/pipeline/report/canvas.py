"""Empty axes of the charts: how large they are, how they are marked, and with which colours."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from textwrap import wrap
from typing import Any, Final, NamedTuple

from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from broker_ctl.core.model.safe_text import printable
from broker_ctl.pipeline.report.values import TIME, ChartAxis, figure, locator
from broker_ctl.simulation.plots import POINTS_PER_INCH

DAY_MS: Final = 86_400_000
_COLOURS: Final = (
    *("c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"),
    *("text", "soft", "grid", "level", "heat", "panel"),
)
# The page has a light and a dark value of each; matplotlib draws with a placeholder for both.
INK: Final[Mapping[str, str]] = {name: f"#0000{n:02x}" for n, name in enumerate(_COLOURS, 1)}
_OF_PAGE: Final = {placeholder: f"var(--{name})" for name, placeholder in INK.items()}
_FONT: Final = re.compile(r"font-family: [^;]*;? ?")
_DATES: Final = ("%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S")
# Midnight says which day begins.
_BEGINNINGS: Final = ("", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M")
# In the corner: what the marks leave out.
_CONTEXTS: Final = ("", "%Y", "%Y", "%d %b %Y", "%d %b %Y", "%d %b %Y")


class CanvasSize(NamedTuple):
    """Of a picture, in units of it: on a screen or a telephone that fits it, a pixel each.

    Attributes:
        height: of the axes, where they are not made of strips.
        names: room for the names of strips, left of them; 0: they stand above.
        most_times: marks that fit below.
    """

    name: str
    width: int
    height: int
    names: int
    most_times: int


SIZES: Final = (CanvasSize("wide", 880, 220, 300, 9), CanvasSize("narrow", 360, 180, 0, 6))
_LEFT: Final = 50
_RIGHT: Final = 16
_HEAD: Final = 22
_FOOT: Final = 42
_STRIP: Final = 19
# Of text.
_LINE: Final = 14
# Of an average letter; what is wider leaves the picture, which ends there.
_LETTER: Final = 6.6


def restyle(style: str) -> str:
    """With the colours and the font of the page."""
    return re.sub("#0000[0-9a-f]{2}", lambda ink: _OF_PAGE[ink[0]], _FONT.sub("", style))


def plot(size: CanvasSize, x: ChartAxis, y: ChartAxis) -> Axes:
    """With marks on both axes, which end where the values say; time is in days."""
    axes = _axes(size.width, size.height, _LEFT, _HEAD)
    axes.set_title(caption(y), color=INK["soft"])
    _mark_x(axes, size, x)
    axes.set_ylim(y.low, y.high)
    axes.yaxis.set_major_locator(locator())
    axes.yaxis.set_major_formatter(FuncFormatter(_label))
    return axes


def strips(size: CanvasSize, names: Sequence[str]) -> tuple[Axes, list[tuple[float, float]]]:
    """A strip for each name, from above; and the upper and the lower end of each."""
    texts = [_wrap(name, size.names or size.width - 2 * _RIGHT) for name in names]
    words = _LINE * max((text.count("\n") + 1 for text in texts), default=1)
    row = max(words, _STRIP) if size.names else words + _STRIP
    axes = _axes(size.width, row * len(names), size.names or _RIGHT, 0)
    axes.grid(visible=False)
    axes.set_ylim(len(names), 0)
    axes.set_yticks([n + 0.5 for n in range(len(names))], labels=texts if size.names else [])
    axes.tick_params(axis="y", labelcolor=INK["text"])
    if size.names:
        return axes, [(n + 0.08, n + 0.92) for n in range(len(names))]
    upper = words / row
    for place, text in enumerate(texts):
        style: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "color": INK["text"]}
        axes.text(0, place + upper - 0.05, text, va="bottom", **style)
    return axes, [(n + upper, n + 0.92) for n in range(len(names))]


def mark_below(axes: Axes, size: CanvasSize, x: ChartAxis) -> None:
    """Marks and words below strips."""
    _mark_x(axes, size, x)
    axes.grid(visible=True, axis="x")


def caption(of: ChartAxis) -> str:
    """What an axis shows, and the unit."""
    return f"{of.says} (UTC)" if of.unit == TIME else f"{of.says}, {of.unit}"


def _axes(width: int, height: int, left: int, head: int) -> Axes:
    whole = head + height + _FOOT
    inches = (width / POINTS_PER_INCH, whole / POINTS_PER_INCH)
    room = (left / width, _FOOT / whole, (width - left - _RIGHT) / width, height / whole)
    axes = Figure(figsize=inches, dpi=POINTS_PER_INCH).add_axes(room)
    axes.grid(color=INK["grid"])
    axes.tick_params(labelcolor=INK["soft"])
    return axes


def _mark_x(axes: Axes, size: CanvasSize, x: ChartAxis) -> None:
    axes.set_xlabel(caption(x), color=INK["soft"], loc="left")
    if x.unit == TIME:
        axes.set_xlim(x.low / DAY_MS, x.high / DAY_MS)
        locate: Any = dates.AutoDateLocator
        form: Any = dates.ConciseDateFormatter
        found = locate(tz=UTC, minticks=2, maxticks=size.most_times)
        axes.xaxis.set_major_locator(found)
        axes.xaxis.set_major_formatter(
            form(found, tz=UTC, formats=_DATES, zero_formats=_BEGINNINGS, offset_formats=_CONTEXTS)
        )
        axes.xaxis.get_offset_text().set_color(INK["soft"])
        return
    axes.set_xlim(x.low, x.high)
    axes.xaxis.set_major_locator(locator())
    axes.xaxis.set_major_formatter(FuncFormatter(_label))


def _label(value: float, _: int | None = None) -> str:
    return figure(round(value, 12))


def _wrap(name: str, room: int) -> str:
    """In a few lines; without its middle, where that is too long, too."""
    width = int(room / _LETTER)
    text = printable(name)
    shortened = text if len(text) <= 2 * width else f"{text[: width - 1]}…{text[1 - width :]}"
    return "\n".join(wrap(shortened, width, break_on_hyphens=False))
