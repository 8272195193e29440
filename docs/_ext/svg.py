"""Small pictures as SVG inside a page: text is escaped, and colours are those of the text."""

import textwrap
from typing import Final
from xml.etree import ElementTree as ET

FONT_PX: Final = 13
LINE_PX: Final = 17
# An upper estimate for a sans-serif font: nothing is measured while the site is built.
_CHARACTER_PX: Final = 7.3
_ARROW_PX: Final = 8


class Drawing:
    """One picture; its title and description are read aloud in its place.

    Args:
        identifier: prefix of the ids inside, unique on the page.
    """

    def __init__(self, identifier: str, title: str, description: str) -> None:
        labelled = {"role": "img", "aria-labelledby": f"{identifier}-title {identifier}-desc"}
        self._root = ET.Element("svg", labelled)
        ET.SubElement(self._root, "title", id=f"{identifier}-title").text = title
        ET.SubElement(self._root, "desc", id=f"{identifier}-desc").text = description
        # Faint lines run behind all else, whenever they are drawn.
        self._behind = ET.SubElement(self._root, "g", {"stroke-opacity": "0.4"})

    def line(self, x1: float, y1: float, x2: float, y2: float, *, is_dashed: bool = False) -> None:
        """A straight line."""
        self.path([(x1, y1), (x2, y2)], is_dashed=is_dashed)

    def path(
        self, points: list[tuple[float, float]], *, is_dashed: bool = False, is_faint: bool = False
    ) -> None:
        """Straight lines from point to point."""
        text = " ".join(f"{x:g},{y:g}" for x, y in points)
        parent = self._behind if is_faint else self._root
        line = ET.SubElement(parent, "polyline", points=text, fill="none", stroke="currentColor")
        if is_dashed:
            line.set("stroke-dasharray", "5 4")

    def head(self, x: float, y: float, *, is_to_the_right: bool) -> None:
        """The tip of an arrow."""
        back = x - _ARROW_PX if is_to_the_right else x + _ARROW_PX
        points = f"{x:g},{y:g} {back:g},{y - 4:g} {back:g},{y + 4:g}"
        ET.SubElement(self._root, "polygon", points=points, fill="currentColor")

    def box(self, x: float, y: float, width: float, height: float) -> None:
        """A rectangle in the colour of a page's margin; the style sheet knows it."""
        place = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{width:g}", "height": f"{height:g}"}
        ET.SubElement(self._root, "rect", place, rx="4", stroke="currentColor", fill="none")

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "middle", is_bold: bool = False
    ) -> None:
        """One line of text on its base line."""
        place = {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": anchor, "fill": "currentColor"}
        element = ET.SubElement(self._root, "text", place)
        element.text = text
        if is_bold:
            element.set("font-weight", "bold")

    def finished(self, width: float, height: float) -> str:
        """The SVG element, as wide and high as that."""
        self._root.set("viewBox", f"0 0 {width:g} {height:g}")
        self._root.set("width", f"{width:g}")
        self._root.set("height", f"{height:g}")
        return ET.tostring(self._root, encoding="unicode")


def width_of(text: str) -> float:
    """An upper estimate of how wide a line of text is."""
    return len(text) * _CHARACTER_PX


def wrapped(text: str, width: float) -> list[str]:
    """Lines of at most that width; a longer word stays whole."""
    characters = max(1, int(width / _CHARACTER_PX))
    return textwrap.wrap(text, characters, break_long_words=False, break_on_hyphens=False) or [""]
