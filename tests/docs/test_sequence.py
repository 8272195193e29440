"""Sequence diagrams: what is written is drawn, and what is not understood names its line."""

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from docs._ext.sequence_drawing import draw
from docs._ext.sequence_text import Message, Note, SequenceError, parse

DOCS: Final = Path(__file__).parents[2] / "docs"
DIAGRAM: Final = re.compile(r"^```\{sequence\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT: Final = """
participants: Client, Broker A, ZooKeeper

# A comment.
Client -> Broker A: lookup <topic> & "more"
Broker A -> Broker A: compute the bundle
Broker A -> ZooKeeper: multi: check lease, create owner
ZooKeeper --> Broker A: ok
note over Broker A, ZooKeeper: the lease: still valid
"""


def test_each_line_is_a_step() -> None:
    sequence = parse(TEXT)
    assert sequence.participants == ("Client", "Broker A", "ZooKeeper")
    assert sequence.steps == (
        Message("Client", "Broker A", 'lookup <topic> & "more"', is_answer=False),
        Message("Broker A", "Broker A", "compute the bundle", is_answer=False),
        Message("Broker A", "ZooKeeper", "multi: check lease, create owner", is_answer=False),
        Message("ZooKeeper", "Broker A", "ok", is_answer=True),
        Note(("Broker A", "ZooKeeper"), "the lease: still valid"),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the diagram is empty"),
        ("\nA -> B: x", "line 2: the first line must be 'participants: A, B'"),
        ("participants: A, B\nA -> C: x", "line 2: unknown participant 'C'; known: A, B"),
        ("participants: A, B\n\nnote over D: y", "line 3: unknown participant 'D'; known: A, B"),
        ("participants: A, B\nA => B: y", "line 2: neither 'A -> B: text' nor"),
        ("participants: A, B\nA -> B", "line 2: neither 'A -> B: text' nor"),
        ("participants: A, A\nA -> A: x", "line 1: a participant is named twice"),
    ],
)
def test_a_line_that_cannot_be_parsed_is_reported_with_its_number(text: str, says: str) -> None:
    with pytest.raises(SequenceError) as caught:
        parse(text)
    assert str(caught.value).startswith(says)


def test_every_diagram_of_the_documentation_is_understood() -> None:
    found = [
        diagram
        for page in DOCS.rglob("*.md")
        for diagram in DIAGRAM.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 10
    assert all(parse(diagram).steps for diagram in found)


def test_a_picture_has_all_its_texts_and_a_description() -> None:
    picture = draw(parse(TEXT), "s", "A title")
    root = ET.fromstring(picture)  # a picture that is not escaped does not parse
    texts = [element.text for element in root.iter("text")]
    assert {"Client", "Broker A", "ZooKeeper", "ok", "compute the bundle"} <= set(texts)
    assert 'lookup <topic> & "more"' in " ".join(map(str, texts))
    assert root.get("aria-labelledby") == "s-title s-desc"
    assert root.findtext("title") == "A title"
    description = root.findtext("desc") or ""
    assert all(str(step) in description for step in parse(TEXT).steps)
    assert len(list(root.iter("polygon"))) == 4


def test_all_shapes_are_inside_the_picture() -> None:
    root = ET.fromstring(draw(parse(TEXT), "s", "A title"))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for box in root.iter("rect"):
        x, y, wide, high = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= width
        assert 0 <= y <= y + high <= height
