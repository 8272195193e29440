"""The picture of the floors is that of the source."""

from typing import Final
from xml.etree import ElementTree as ET

from docs._ext.floors import House, draw, house, in_words

SMALL: Final = House((("a",), ("b", "c"), ("d",)), {("a", "b"): 2, ("b", "d"): 1, ("a", "d"): 5})


def test_every_room_is_drawn_and_explained() -> None:
    found = house()
    rooms = {room for floor in found.floors for room in floor}
    assert {"cli", "daemon", "core", "errors"} <= rooms
    assert {room for pair in found.imports for room in pair} <= rooms
    assert {text.text for text in ET.fromstring(draw(found, "id")).iter("text")} == rooms
    words = in_words(found)
    assert all(f"| `{room}` | " in words for room in rooms)
    assert all(f"| `{room}` |  |" not in words for room in rooms), "a package says what it is"
    assert found.imports["core", "errors"] > 0
    assert f"`errors` {found.imports['core', 'errors']}" in words


def test_nothing_is_imported_from_above() -> None:
    assert house().upward() == []
    assert House((("a",), ("b",)), {("b", "a"): 1}).upward() == [("b", "a")]


def test_a_line_that_follows_from_others_is_not_drawn() -> None:
    assert SMALL.drawn_imports() == [("a", "b"), ("b", "d")]
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    tall = House((("a",), ("b",), ("c",), ("d",)), dict.fromkeys(pairs, 1))
    assert tall.drawn_imports() == [("a", "b"), ("b", "c"), ("c", "d")]
    assert len(list(ET.fromstring(draw(SMALL, "id")).iter("polyline"))) == 2
