"""A state machine as SVG: states stand in a column.

What leads to a later state runs on the right, what leads back on the left, each on a track of its
own, so that no two labels meet. What does not leave a state is written into its box.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from docs._ext.machines import Machine, Row
from docs._ext.svg import LINE_PX, Drawing, width_of, wrapped

_MARGIN: Final = 10
_PAD: Final = 8
_BOX_PX: Final = 130
_LABEL_PX: Final = 215
_TRACK_PX: Final = 12
_BETWEEN: Final = 26


@dataclass(slots=True)
class _Edge:
    """All rows from one state to another."""

    source: int
    target: int
    lines: list[str]
    out_y: float = 0.0
    in_y: float = 0.0
    track: int = 0

    @property
    def is_forward(self) -> bool:
        return self.target > self.source

    @property
    def span(self) -> tuple[float, float]:
        return min(self.out_y, self.in_y), max(self.out_y, self.in_y)


def draw(machine: Machine, identifier: str) -> str:
    """The picture; its description has a sentence for each row."""
    sentences = (f"{row.source} to {row.target}: {row.label}".rstrip(": ") for row in machine.rows)
    title = f"States: {machine.title}"
    return _Column(machine, Drawing(identifier, title, ". ".join(sentences))).drawn()


class _Column:
    def __init__(self, machine: Machine, drawing: Drawing) -> None:
        self._machine = machine
        self._drawing = drawing
        self._edges = _edges(machine)
        self._tops: list[tuple[float, float]] = []

    def drawn(self) -> str:
        bottom = self._place()
        forward = [edge for edge in self._edges if edge.is_forward]
        backward = [edge for edge in self._edges if not edge.is_forward]
        left_px, right_px = _side_px(backward), _side_px(forward)
        left = _MARGIN + left_px
        for edge in backward:
            self._edge(edge, left, -(_labels_px(backward) + (edge.track + 1) * _TRACK_PX))
        for edge in forward:
            self._edge(edge, left + _BOX_PX, _labels_px(forward) + (edge.track + 1) * _TRACK_PX)
        for state, (top, height) in zip(self._machine.states, self._tops, strict=True):
            self._box(state, left, top, height)
        return self._drawing.finished(left + _BOX_PX + right_px + _MARGIN, bottom + _MARGIN)

    def _place(self) -> float:
        """Give each box and each end of an edge its height, and each edge its track."""
        y: float = _MARGIN
        for number, state in enumerate(self._machine.states):
            inside = LINE_PX * (1 + len(_stays(self._machine, state))) + 2 * _PAD
            height = max(inside, *(self._side(number, y, is_right=side) for side in (True, False)))
            self._tops.append((y, height))
            y += height + _BETWEEN
        for is_forward in (True, False):
            _lay_tracks([edge for edge in self._edges if edge.is_forward is is_forward])
        return y - _BETWEEN

    def _side(self, number: int, top: float, *, is_right: bool) -> float:
        """Ends of edges on one side of a box, from its top; the height that they need."""
        y = top + _PAD / 2
        ends = [edge for edge in self._edges if edge.is_forward is is_right]
        arriving = sorted((e for e in ends if e.target == number), key=lambda e: -e.source)
        leaving = sorted((e for e in ends if e.source == number), key=lambda e: -e.target)
        for edge in leaving if not is_right else ():
            y = edge.out_y = y + len(edge.lines) * LINE_PX + 4
        for edge in arriving:
            y = edge.in_y = y + LINE_PX
        for edge in leaving if is_right else ():
            y = edge.out_y = y + len(edge.lines) * LINE_PX + 4
        return y - top + _PAD

    def _edge(self, edge: _Edge, side: float, out: float) -> None:
        track = side + out
        points = [(side, edge.out_y), (track, edge.out_y), (track, edge.in_y), (side, edge.in_y)]
        self._drawing.path(points)
        self._drawing.head(side, edge.in_y, is_to_the_right=out < 0)
        anchor, at = ("start", side + _PAD) if out > 0 else ("end", side - _PAD)
        for number, line in enumerate(reversed(edge.lines)):
            self._drawing.text(at, edge.out_y - 4 - number * LINE_PX, line, anchor=anchor)

    def _box(self, state: str, x: float, top: float, height: float) -> None:
        self._drawing.box(x, top, _BOX_PX, height)
        stays = _stays(self._machine, state)
        y = top + (height - LINE_PX * (1 + len(stays))) / 2 + LINE_PX - 4
        self._drawing.text(x + _BOX_PX / 2, y, state, is_bold=True)
        for number, line in enumerate(stays, 1):
            self._drawing.text(x + _BOX_PX / 2, y + number * LINE_PX, line)


def _edges(machine: Machine) -> list[_Edge]:
    rows: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in machine.rows:
        if row.source != row.target:
            ends = machine.states.index(row.source), machine.states.index(row.target)
            rows[ends].append(row)
    return [_Edge(*ends, list(_label(found))) for ends, found in rows.items()]


def _label(rows: list[Row]) -> Iterator[str]:
    """Events with the same actions share their lines."""
    by_actions: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in rows:
        by_actions[row.actions].append(row.event)
    for actions, events in by_actions.items():
        label = Row("", ", ".join(events), "", actions).label
        yield from wrapped(label, _LABEL_PX) if label else ()


def _stays(machine: Machine, state: str) -> list[str]:
    rows = [row for row in machine.rows if row.source == row.target == state]
    if not rows:
        return []
    return wrapped(f"stays: {'; '.join(row.label for row in rows)}", _BOX_PX - _PAD)


def _lay_tracks(edges: list[_Edge]) -> None:
    """Short edges run inside; two that overlap never share a track."""
    taken: list[list[tuple[float, float]]] = []
    for edge in sorted(edges, key=lambda e: e.span[1] - e.span[0]):
        low, high = edge.span
        edge.track = next(
            (n for n, spans in enumerate(taken) if all(high < a or b < low for a, b in spans)),
            len(taken),
        )
        if edge.track == len(taken):
            taken.append([])
        taken[edge.track].append((low, high))


def _labels_px(edges: list[_Edge]) -> float:
    return max((width_of(line) for edge in edges for line in edge.lines), default=0) + 2 * _PAD


def _side_px(edges: list[_Edge]) -> float:
    if not edges:
        return 0
    return _labels_px(edges) + (max(edge.track for edge in edges) + 1) * _TRACK_PX
