"""Every transition table has its diagram, and the diagram has every row."""

import ast
import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

import broker_ctl
from broker_ctl.core.machines import ownership, session
from docs._ext.machines import MACHINES, TABLES, Machine, Row
from docs._ext.state_drawing import draw

CORE: Final = Path(broker_ctl.__file__).parent / "core"
PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "state-machines.md"


def is_transition_table(annotation: str) -> bool:
    """Whether a value has the type of a table: by state and event, or by state."""
    if re.match(r"Final\[Mapping\[tuple\[\w+State, \w+Event\], ", annotation):
        return True
    key, _, value = annotation.removeprefix("Final[Mapping[").removesuffix("]]").partition(", ")
    return value == f"frozenset[{key}]"


def tables_of_the_core() -> set[tuple[str, str]]:
    found = set()
    for file in CORE.rglob("*.py"):
        module = ".".join(("broker_ctl", "core", *file.relative_to(CORE).with_suffix("").parts))
        for node in ast.parse(file.read_text()).body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    if is_transition_table(ast.unparse(annotation)):
                        found.add((module, name))
    return found


def test_every_table_of_the_core_is_a_machine() -> None:
    assert tables_of_the_core() == TABLES
    assert len(MACHINES) == len(TABLES)


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_has_its_diagram_on_the_page(name: str) -> None:
    assert f"(machine-{name})=\n" in PAGE.read_text()
    assert f"```{{state-table}} {name}\n```\n" in PAGE.read_text()


def test_a_machine_has_the_rows_of_its_table() -> None:
    rows = {(row.source, row.event): (row.target, row.actions) for row in MACHINES["session"].rows}
    assert rows == {
        (state.value, event.value): (to.value, tuple(action.value for action in actions))
        for (state, event), (to, actions) in session.TRANSITIONS.items()
    }
    pairs = {(row.source, row.target) for row in MACHINES["ownership"].rows}
    assert pairs == {(a.value, b.value) for a, after in ownership.NEXT.items() for b in after}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_diagram_has_every_state_and_every_arrow(machine: Machine) -> None:
    root = ET.fromstring(draw(machine, "id"))
    texts = [element.text or "" for element in root.iter("text")]
    assert set(machine.states) <= set(texts)
    assert len(list(root.iter("rect"))) == len(machine.states)
    between = {(row.source, row.target) for row in machine.rows if row.source != row.target}
    assert len(list(root.iter("polygon"))) == len(between)
    words = " ".join(" ".join(texts).split())
    for row in machine.rows:
        assert row.event in words
        assert all(action in words for action in row.actions)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_no_two_lines_of_text_meet(machine: Machine) -> None:
    root = ET.fromstring(draw(machine, "id"))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    places = [(float(e.get("x", "")), float(e.get("y", ""))) for e in root.iter("text")]
    assert all(0 < x < width and 0 < y < height for x, y in places)
    for number, (x, y) in enumerate(places):
        near = [b for a, b in places[number + 1 :] if a == x]
        assert all(abs(y - other) > 12 for other in near)


def test_parallel_arrows_run_on_tracks_of_their_own() -> None:
    rows = (Row("a", "x", "c"), Row("b", "y", "d"), Row("a", "z", "d"))
    root = ET.fromstring(draw(Machine("M", ("a", "b", "c", "d"), rows), "id"))
    tracks = [line.get("points", "").split()[1].split(",")[0] for line in root.iter("polyline")]
    assert len(set(tracks)) == 3
