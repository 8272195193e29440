"""Figures of matplotlib as SVG: for a page as well as for a file of its own, and in words, too."""

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from matplotlib import style
from matplotlib.figure import Figure

from broker_ctl.core.model.printable import printable

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
