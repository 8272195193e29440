"""Files of the events of brokers."""

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.scenario import ScenarioEvent, ScenarioEventKind
from broker_ctl.simulation.traces.trace_files import read_events

HEADER: Final = "minute,broker,event,factor"
UP, DOWN, DRAIN, CAPACITY = (
    ScenarioEventKind.UP,
    ScenarioEventKind.DOWN,
    ScenarioEventKind.DRAIN,
    ScenarioEventKind.CAPACITY,
)


def write_rows(path: Path, *lines: str, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *lines, ""]))
    return path


def write_parquet(path: Path, **columns: Any) -> Path:
    import_module("pyarrow.parquet").write_table(import_module("pyarrow").table(columns), path)
    return path


def refused(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        read_events(path)
    message = str(caught.value)
    assert message.startswith(f"events {path}")
    return message.removeprefix(f"events {path}")


def test_events_are_by_minute_and_keep_the_order_of_the_file_within_one(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "e.csv",
        "9,broker-2,up,",
        "5,broker-2,drain,",
        "5,broker-1,capacity,0.7",
        "7,broker-2,down,",
    )
    assert read_events(path) == (
        ScenarioEvent(5, "broker-2", DRAIN),
        ScenarioEvent(5, "broker-1", CAPACITY, 0.7),
        ScenarioEvent(7, "broker-2", DOWN),
        ScenarioEvent(9, "broker-2", UP),
    )


def test_a_file_without_capacities_needs_no_factors(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "e.csv", "5,b,down", header="minute,broker,event")
    assert read_events(path) == (ScenarioEvent(5, "b", DOWN),)


@pytest.mark.parametrize("blank", [None, float("nan")])
def test_parquet_holds_the_same_events(tmp_path: Path, blank: float | None) -> None:
    path = write_parquet(
        tmp_path / "e.parquet",
        minute=[1, 2],
        broker=["broker-1", "broker-1"],
        event=["capacity", "down"],
        factor=[0.5, blank],
    )
    assert read_events(path) == (
        ScenarioEvent(1, "broker-1", CAPACITY, 0.5),
        ScenarioEvent(2, "broker-1", DOWN),
    )


def test_parquet_may_have_a_column_of_no_factors(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "e.parquet", minute=[3], broker=["b"], event=["up"], factor=[None]
    )
    assert read_events(path) == (ScenarioEvent(3, "b", UP),)


@pytest.mark.parametrize(
    "lines",
    [
        ["1,b,up,", "2,b,down,", "3,b,up,", "4,b,drain,", "5,b,down,", "6,b,up,"],
        ["1,b,capacity,0.5", "2,b,down,", "3,b,capacity,2", "4,b,up,"],
        ["2,b,up,", "1,b,down,"],
        ["1,a,down,", "1,b,down,"],
    ],
)
def test_events_that_can_happen_to_a_broker_are_read(tmp_path: Path, lines: list[str]) -> None:
    assert len(read_events(write_rows(tmp_path / "e.csv", *lines))) == len(lines)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], ": no rows"),
        (["1,b,up,", "x,b,down,"], ":3: minute 'x': a whole number from 0 to 20159"),
        (["20160,b,up,"], ":2: minute '20160'"),
        (["1,,up,"], ":2: broker '': a name of 1 to 255 letters"),
        ([f"1,{'b' * 256},up,"], ":2: broker 'bbb"),
        (["1,b,UP,"], ":2: event 'UP': one of up, down, drain, capacity"),
        (["1,b,capacity,"], ":2: factor '': a number from 0.01 to 100 for a capacity"),
        (["1,b,capacity,0"], ":2: factor '0': a number"),
        (["1,b,capacity,nan"], ":2: factor 'nan': a number"),
        (["1,b,capacity,101"], ":2: factor '101': a number"),
        (["1,b,up,0.5"], ":2: factor '0.5': a number from 0.01 to 100 for a capacity, nothing"),
        (["1,b,up,x"], ":2: factor 'x'"),
        (["1,b,up"], ":2: 3 fields; expected 4"),
        (["1,b,down,", "3,b,down,"], ":3: b: down, but it is down"),
        (["3,b,down,", "1,b,down,"], ":2: b: down, but it is down"),
        (["1,b,up,", "2,b,up,"], ":3: b: up, but it is there"),
        (["1,b,drain,", "2,b,drain,"], ":3: b: drain, but it is being drained, and goes down next"),
        (["1,b,down,", "2,b,drain,"], ":3: b: drain, but it is down"),
        (["1,b,drain,", "2,b,up,"], ":3: b: up, but it is being drained"),
        (["1,b,capacity,2", "2,b,up,"], ":3: b: up, but it is there"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, lines: list[str], complaint: str) -> None:
    assert refused(write_rows(tmp_path / "e.csv", *lines)).startswith(complaint)


def test_a_capacity_without_a_column_for_it_is_named(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "e.csv", "1,b,down", "2,c,capacity", header="minute,broker,event")
    assert refused(path) == ":3: event 'capacity': it needs a column factor"


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "e.csv", header="minute,broker,event,why")
    assert refused(path) == ":1: the columns must be minute,broker,event and may be factor"


def test_more_events_than_are_held_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_ctl.simulation.traces.trace_files.MOST_EVENTS", 2)
    path = write_rows(tmp_path / "e.csv", *(f"{index},b{index},up," for index in range(3)))
    assert refused(path) == ":4: more than 2 events"
    path = write_rows(tmp_path / "e.csv", "", "", *(f"{index},b{index},up," for index in range(2)))
    assert len(read_events(path)) == 2


def test_a_malformed_row_of_parquet_is_named(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "e.parquet", minute=[1, 2], broker=["a", ""], event=["up"] * 2)
    assert refused(path) == " row 2: broker '': a name of 1 to 255 letters"


def test_another_format_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "e.json") == ": a name that ends in .csv or .parquet"
