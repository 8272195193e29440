"""A sequence diagram as SVG: a lane for each participant, time runs downwards."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from docs._ext.sequence_text import Message, Note, Sequence
from docs._ext.svg import LINE_PX, Drawing, width_of, wrapped

_MARGIN: Final = 10
_LANE_GAP: Final = 150
_LABEL_PX: Final = 230
_HEAD_PX: Final = 30
_STEP_GAP: Final = 14
_LOOP_PX: Final = 34
_PAD: Final = 8
# How much wider bold text is.
_BOLD: Final = 1.1


def draw(sequence: Sequence, identifier: str, title: str) -> str:
    """The picture; its description says each step in words."""
    drawing = Drawing(identifier, title, ". ".join(map(str, sequence.steps)))
    return _Lanes(sequence, drawing).drawn()


class _Lanes:
    def __init__(self, sequence: Sequence, drawing: Drawing) -> None:
        self._sequence = sequence
        self._drawing = drawing
        names = sequence.participants
        self._half = {name: width_of(name) * _BOLD / 2 + _PAD for name in names}
        self._at = dict(zip(names, accumulate(self._gaps()), strict=True))

    def drawn(self) -> str:
        y: float = _MARGIN + _HEAD_PX + _STEP_GAP
        for step in self._sequence.steps:
            y = self._note(step, y) if isinstance(step, Note) else self._message(step, y)
        for name, x in self._at.items():
            half = self._half[name]
            self._drawing.box(x - half, _MARGIN, 2 * half, _HEAD_PX)
            self._drawing.text(x, _MARGIN + 20, name, is_bold=True)
            self._drawing.path([(x, _MARGIN + _HEAD_PX), (x, y)], is_dashed=True, is_faint=True)
        return self._drawing.finished(self._width(), y + _MARGIN)

    def _gaps(self) -> Iterator[float]:
        """Where the first lane is, and how far each is from the one before."""
        names = self._sequence.participants
        left = [s for s in self._notes() if s.over == (names[0],)]
        yield _MARGIN + max([self._half[names[0]], *(_note_px(note) / 2 for note in left)])
        for one, other in pairwise(names):
            between = [_LANE_GAP, self._half[one] + self._half[other] + 2 * _PAD]
            for step in self._messages():
                if {step.sender, step.receiver} == {one, other}:
                    between.append(_label_px(step) + 3 * _PAD)
                elif step.sender == step.receiver == one:
                    between.append(_label_px(step) + _LOOP_PX + 2 * _PAD)
            yield max(between)

    def _width(self) -> float:
        *_, (last, x) = self._at.items()
        rights = [x + self._half[last]]
        rights += [
            self._at[step.sender] + _LOOP_PX + _PAD + _label_px(step)
            for step in self._messages()
            if step.sender == step.receiver
        ]
        rights += [self._note_span(note)[1] for note in self._notes()]
        return max(rights) + _MARGIN

    def _messages(self) -> Iterator[Message]:
        return (step for step in self._sequence.steps if isinstance(step, Message))

    def _notes(self) -> Iterator[Note]:
        return (step for step in self._sequence.steps if isinstance(step, Note))

    def _message(self, step: Message, y: float) -> float:
        start, end = self._at[step.sender], self._at[step.receiver]
        if start == end:
            return self._own(step, start, y)
        lines = wrapped(step.text, max(_LABEL_PX, abs(end - start) - 3 * _PAD))
        for line in lines:
            y += LINE_PX
            self._drawing.text((start + end) / 2, y - 3, line)
        y += 5
        self._drawing.line(start, y, end, y, is_dashed=step.is_answer)
        self._drawing.head(end, y, is_to_the_right=end > start)
        return y + _STEP_GAP

    def _own(self, step: Message, x: float, y: float) -> float:
        lines = wrapped(step.text, _LABEL_PX)
        out = x + _LOOP_PX - _PAD
        below = y + max(len(lines) * LINE_PX, LINE_PX) + 4
        self._drawing.path([(x, y + 6), (out, y + 6), (out, below), (x, below)])
        self._drawing.head(x, below, is_to_the_right=False)
        for number, line in enumerate(lines, 1):
            self._drawing.text(x + _LOOP_PX, y + number * LINE_PX, line, anchor="start")
        return below + _STEP_GAP

    def _note_span(self, note: Note) -> tuple[float, float]:
        ends = [self._at[name] for name in note.over]
        half = _note_px(note) / 2
        middle = (min(ends) + max(ends)) / 2
        left = max(_MARGIN, min(min(ends) - 3 * _PAD, middle - half))
        return left, max(max(ends) + 3 * _PAD, left + 2 * half)

    def _note(self, note: Note, y: float) -> float:
        left, right = self._note_span(note)
        lines = wrapped(note.text, right - left - 2 * _PAD)
        height = len(lines) * LINE_PX + _PAD
        self._drawing.box(left, y, right - left, height)
        for number, line in enumerate(lines, 1):
            self._drawing.text((left + right) / 2, y + number * LINE_PX, line)
        return y + height + _STEP_GAP


def _label_px(step: Message) -> float:
    return max(width_of(line) for line in wrapped(step.text, _LABEL_PX))


def _note_px(note: Note) -> float:
    return max(width_of(line) for line in wrapped(note.text, _LABEL_PX)) + 2 * _PAD
