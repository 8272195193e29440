"""Sequence diagrams: what is written is drawn, and what is not understood names its line."""

from xml.etree import ElementTree as ET

import pytest

from docs._ext.sequence_drawing import draw
from docs._ext.sequence_text import Message, Note, SequenceError, parse

TEXT = """
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


def test_without_a_list_those_who_send_and_receive_take_part() -> None:
    assert parse("B -> A: x\nA -> C: y").participants == ("B", "A", "C")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the diagram is empty"),
        ("participants: A, B\nA -> C: x", "line 2: unknown participant 'C'; known: A, B"),
        ("A -> B: x\n\nnote over D: y", "line 3: unknown participant 'D'; known: A, B"),
        ("A -> B: x\nA => B: y", "line 2: neither 'A -> B: text' nor"),
        ("A -> B: x\nA -> B", "line 2: neither 'A -> B: text' nor"),
        ("participants: A, A\nA -> A: x", "line 1: a participant is named twice"),
    ],
)
def test_what_is_not_understood_names_its_line(text: str, says: str) -> None:
    with pytest.raises(SequenceError) as caught:
        parse(text)
    assert str(caught.value).startswith(says)


def test_all_is_in_the_picture_and_its_description_says_it() -> None:
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


def test_nothing_is_drawn_outside_of_the_picture() -> None:
    root = ET.fromstring(draw(parse(TEXT), "s", "A title"))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for box in root.iter("rect"):
        x, y, wide, high = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= width
        assert 0 <= y <= y + high <= height
