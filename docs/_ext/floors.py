"""The floors of the package: rows by the import contract, lines by what is really imported."""

import ast
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import grimp

from docs._ext.markdown import code, escape, table
from docs._ext.svg import Drawing, width_of

ROOT: Final = Path(__file__).parents[2]
_PACKAGE: Final = "broker_ctl"
_MARGIN: Final = 10
_GAP: Final = 16
_ROW_PX: Final = 74
_BOX_PX: Final = 32


@dataclass(frozen=True, slots=True)
class House:
    """Folders and files of the package by floor, the top first.

    Attributes:
        imports: how many imports lead from one to another.
    """

    floors: tuple[tuple[str, ...], ...]
    imports: Mapping[tuple[str, str], int]

    def drawn_imports(self) -> list[tuple[str, str]]:
        """Direct imports downwards without the transitive ones, so that the lines stay legible."""
        below = {pair for pair in self.imports if self._floor(pair[0]) != self._floor(pair[1])}
        reach = set(below)
        # Over each room in turn, as Warshall has it.
        for middle in (room for floor in self.floors for room in floor):
            into = [a for a, b in reach if b == middle]
            out = [b for a, b in reach if a == middle]
            reach |= set(product(into, out))
        return sorted(
            (a, b)
            for a, b in below
            if not any((a, c) in reach and (c, b) in reach for floor in self.floors for c in floor)
        )

    def upward(self) -> list[tuple[str, str]]:
        """Imports that no floor allows."""
        return [pair for pair in self.imports if self._floor(pair[0]) > self._floor(pair[1])]

    def _floor(self, room: str) -> int:
        return next(number for number, rooms in enumerate(self.floors) if room in rooms)


def house() -> House:
    """As the source is now."""
    return House(_floors((ROOT / "pyproject.toml").read_text(encoding="utf-8")), _imports())


def _floors(pyproject: str) -> tuple[tuple[str, ...], ...]:
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    # "a | b : (c)": a row of three.
    rows = (layer.translate(str.maketrans("|:()", "    ")).split() for layer in layers)
    return tuple(tuple(name.removeprefix(f"{_PACKAGE}.") for name in row) for row in rows)


def _imports() -> dict[tuple[str, str], int]:
    graph = grimp.build_graph(_PACKAGE, cache_dir=None)
    pairs = (
        (importer.split(".")[1:2], imported.split(".")[1:2])
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    )
    found = Counter((a[0], b[0]) for a, b in pairs if a and b and a != b)
    return {pair: count for pair, count in sorted(found.items()) if "__main__" not in pair}


def draw(of: House, identifier: str) -> str:
    """The picture; what it cannot say is in the table."""
    says = "; ".join(", ".join(floor) for floor in of.floors)
    drawing = Drawing(identifier, "Floors of the package", f"From the top: {says}.")
    widths = [sum(_px(room) for room in floor) + _GAP * (len(floor) - 1) for floor in of.floors]
    whole = max(widths) + 2 * _MARGIN
    places: dict[str, tuple[float, float]] = {}
    for number, (floor, width) in enumerate(zip(of.floors, widths, strict=True)):
        x = (whole - width) / 2
        for room in floor:
            places[room] = x + _px(room) / 2, _MARGIN + number * _ROW_PX
            x += _px(room) + _GAP
    for upper, lower in of.drawn_imports():
        (x1, y1), (x2, y2) = places[upper], places[lower]
        drawing.path([(x1, y1 + _BOX_PX), (x2, y2)], is_faint=True)
    for room, (x, y) in places.items():
        drawing.box(x - _px(room) / 2, y, _px(room), _BOX_PX)
        drawing.text(x, y + 21, room, is_bold=True)
    return drawing.finished(whole, len(of.floors) * _ROW_PX - _ROW_PX + _BOX_PX + 2 * _MARGIN)


def _px(room: str) -> float:
    return width_of(room) * 1.1 + 20


def in_words(of: House) -> str:
    """A table: what each room is, and what it imports, with the number of imports."""
    rows = []
    for room in (room for floor in of.floors for room in floor):
        found = [f"{code(b)} {count}" for (a, b), count in of.imports.items() if a == room]
        rows.append([code(room), escape(_purpose(room)), ", ".join(found)])
    return table(["Folder or module", "What it is", "Imports"], rows)


def _purpose(room: str) -> str:
    folder = ROOT / _PACKAGE / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(doc.partition("\n\n")[0].split())
