"""The language of sequence diagrams: who takes part, messages, and notes.

::

    participants: Broker A, ZooKeeper
    Broker A -> ZooKeeper: multi: check lease, create owner
    ZooKeeper --> Broker A: ok
    note over Broker A, ZooKeeper: the lease is still valid

``->`` is a request, ``-->`` an answer. The participants stand from left to right. Empty lines, and
those that begin with ``#``, are left out.
"""

import re
from dataclasses import dataclass
from typing import Final

_PARTICIPANTS: Final = re.compile(r"participants:\s*(.+)")
_NOTE: Final = re.compile(r"note over ([^:]+):\s*(.+)")
_MESSAGE: Final = re.compile(r"([^:]+?)\s*(-->|->)\s*([^:]+?):\s*(.+)")


class SequenceError(ValueError):
    """A line that is not understood; ``line`` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Message:
    """From one participant to another, or to itself."""

    sender: str
    receiver: str
    text: str
    is_answer: bool

    def __str__(self) -> str:
        verb = "answers" if self.is_answer else "sends to"
        return f"{self.sender} {verb} {self.receiver}: {self.text}"


@dataclass(frozen=True, slots=True)
class Note:
    """What holds at that moment, over the lanes of some participants."""

    over: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"Note over {', '.join(self.over)}: {self.text}"


@dataclass(frozen=True, slots=True)
class Sequence:
    """A whole diagram, from top to bottom."""

    participants: tuple[str, ...]
    steps: tuple[Message | Note, ...]


def parse(text: str) -> Sequence:
    """The diagram of a text.

    Raises:
        SequenceError: a line is malformed, or names an undeclared participant.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        raise SequenceError(1, "the diagram is empty")
    first = _PARTICIPANTS.fullmatch(lines[0][1])
    if first is None:
        raise SequenceError(lines[0][0], "the first line must be 'participants: A, B'")
    participants = _names(first[1])
    steps = [(number, _step(number, line)) for number, line in lines[1:]]
    if len(set(participants)) != len(participants):
        raise SequenceError(lines[0][0], "a participant is named twice")
    for number, step in steps:
        named = step.over if isinstance(step, Note) else (step.sender, step.receiver)
        for name in named:
            if name not in participants:
                known = ", ".join(participants)
                raise SequenceError(number, f"unknown participant {name!r}; known: {known}")
    return Sequence(participants, tuple(step for _, step in steps))


def _step(number: int, line: str) -> Message | Note:
    if found := _NOTE.fullmatch(line):
        return Note(_names(found[1]), found[2])
    if found := _MESSAGE.fullmatch(line):
        return Message(found[1], found[3], found[4], is_answer=found[2] == "-->")
    raise SequenceError(number, f"neither 'A -> B: text' nor 'note over A, B: text': {line!r}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))
