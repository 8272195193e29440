"""Trace files: what is read, what is written, what is refused."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.scenario import TopicShares, Traffic
from broker_ctl.simulation.scenarios import scenario
from broker_ctl.simulation.traces.trace_files import read_traffic, write_traffic

HEADER: Final = "minute,bundle,topics,msg_rate_in,msg_rate_out,bytes_in,bytes_out"
RATES: Final = ("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")
LOW: Final = "t/n/0x00000000_0x80000000"
HIGH: Final = "t/n/0x80000000_0xffffffff"
FORMATS: Final = (".csv", ".parquet")


def write_parquet(path: Path, columns: Mapping[str, Any]) -> Path:
    """A Parquet file by hand."""
    table = import_module("pyarrow").table(dict(columns))
    import_module("pyarrow.parquet").write_table(table, path)
    return path


def write_rows(path: Path, *lines: str, header: str = HEADER) -> Path:
    """A trace of these lines, which are those of a CSV file, in the format of the name."""
    if path.suffix == ".csv":
        path.write_text("\n".join([header, *lines, ""]))
        return path
    rows = [line.split(",") for line in lines]
    kinds: tuple[Callable[[str], object], ...] = (int, str, int, float, float, float, float)
    columns = zip(header.split(","), kinds, zip(*rows, strict=True), strict=True)
    return write_parquet(path, {name: list(map(kind, texts)) for name, kind, texts in columns})


def refused(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        read_traffic(path)
    message = str(caught.value)
    assert message.startswith(f"trace {path}")
    return message.removeprefix(f"trace {path}")


def of(traffic: Traffic, bundle: str, rate: str = "bytes_in") -> list[float]:
    column = traffic.bundles.index(Bundle.parse(bundle))
    values: list[float] = getattr(traffic, rate)[:, column].tolist()
    return values


def same(one: Traffic, other: Traffic) -> bool:
    return all(np.array_equal(getattr(one, rate), getattr(other, rate)) for rate in RATES)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_row_holds_until_the_bundles_next_row_and_before_its_first_there_is_nothing(
    tmp_path: Path, suffix: str
) -> None:
    traffic = read_traffic(
        write_rows(
            tmp_path / f"t{suffix}",
            f"4,{LOW},9,0,0,0,0",
            f"1,{LOW},3,1,2,10,20",
            f"3,{HIGH},2,5,6,50,60.5",
        )
    )
    assert traffic.bundles == (Bundle.parse(LOW), Bundle.parse(HIGH))
    assert traffic.minutes == 5
    assert of(traffic, LOW) == [0, 10, 10, 10, 0]
    assert of(traffic, LOW, "bytes_out") == [0, 20, 20, 20, 0]
    assert of(traffic, HIGH, "msg_rate_in") == [0, 0, 0, 5, 5]
    assert of(traffic, HIGH, "msg_rate_out") == [0, 0, 0, 6, 6]
    assert of(traffic, HIGH, "bytes_out") == [0, 0, 0, 60.5, 60.5]
    assert {getattr(traffic, rate).dtype for rate in RATES} == {np.dtype(np.float32)}


def test_topics_lie_evenly_as_many_as_the_first_row_says(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv", f"1,{LOW},9,0,0,0,0", f"0,{LOW},4,1,1,1,1")
    assert read_traffic(path).topics[0] == TopicShares(
        (0x10000000, 0x30000000, 0x50000000, 0x70000000), (0.25,) * 4
    )


def test_a_bundle_without_topics_has_one_to_carry_what_it_carries(tmp_path: Path) -> None:
    topics = read_traffic(write_rows(tmp_path / "t.csv", f"0,{LOW},0,1,1,1,1")).topics[0]
    assert topics == TopicShares((0x40000000,), (1.0,))


def test_holes_in_a_ring_are_filled_with_silent_bundles(tmp_path: Path) -> None:
    traffic = read_traffic(
        write_rows(
            tmp_path / "t.csv",
            "0,t/n/0x10000000_0x20000000,1,1,1,1,1",
            "0,t/n/0x40000000_0x50000000,1,1,1,1,1",
            "0,t/m/0x00000000_0xffffffff,1,1,1,1,1",
        )
    )
    assert list(map(str, traffic.bundles)) == [
        "t/m/0x00000000_0xffffffff",
        "t/n/0x00000000_0x10000000",
        "t/n/0x10000000_0x20000000",
        "t/n/0x20000000_0x40000000",
        "t/n/0x40000000_0x50000000",
        "t/n/0x50000000_0xffffffff",
    ]
    assert traffic.bytes_out.tolist() == [[1, 0, 1, 0, 1, 0]]
    assert len(traffic.topics) == 6


def test_one_bundle_may_be_written_in_two_ways(tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "t.csv",
        "0,t/n/0x0abcdef0_0xffffffff,1,1,1,1,1",
        "1,t/n/0x0ABCDEF0_0xFFFFFFFF,1,1,1,7,1",
    )
    assert of(read_traffic(path), "t/n/0x0abcdef0_0xffffffff") == [1, 7]


def test_columns_may_stand_in_any_order_and_lines_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "t.CSV"
    columns = ",".join(reversed(HEADER.split(",")))
    path.write_bytes(f"\ufeff{columns}\r\n\r\n4,3,2,1,1,{LOW},0\r\n".encode())
    traffic = read_traffic(path)
    assert [of(traffic, LOW, rate) for rate in RATES] == [[1], [2], [3], [4]]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", ["diurnal", "flapping-consumers"])
def test_a_scenario_comes_back_to_the_bit(tmp_path: Path, name: str, suffix: str) -> None:
    traffic = scenario(name, brokers=2, hours=3).traffic
    path = tmp_path / f"t{suffix}"
    write_traffic(traffic, path)
    again = read_traffic(path)
    assert again.bundles == traffic.bundles
    assert same(again, traffic)
    assert [len(each.shares) for each in again.topics] == [
        len(each.shares) for each in traffic.topics
    ]


def test_more_rows_than_are_read_at_once_come_back(tmp_path: Path) -> None:
    traffic = scenario("diurnal", brokers=3, hours=8).traffic
    for suffix in FORMATS:
        write_traffic(traffic, tmp_path / f"t{suffix}")
        assert same(read_traffic(tmp_path / f"t{suffix}"), traffic)


def test_only_changes_are_written_and_the_last_minute(tmp_path: Path) -> None:
    bundles = Ring.even(Namespace("t", "n"), 2).bundles
    rates = np.array([[1, 0], [1, 0], [2, 0], [2, 0], [2, 0]], np.float32)
    thirds = (rates / 3).astype(np.float32)
    topics = TopicShares.even(bundles[0], 3), TopicShares.even(bundles[1], 5)
    write_traffic(Traffic(bundles, topics, rates, rates, rates, thirds), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().splitlines() == [
        HEADER,
        f"0,{LOW},3,1,1,1,0.333333343",
        f"0,{HIGH},5,0,0,0,0",
        f"2,{LOW},3,2,2,2,0.666666687",
        f"4,{LOW},3,2,2,2,0.666666687",
        f"4,{HIGH},5,0,0,0,0",
    ]


levels = st.floats(0, 2.0**40, width=32)


@given(
    cells=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 3), st.tuples(*[levels] * 4)),
        min_size=1,
        unique_by=lambda cell: cell[:2],
    ),
    suffix=st.sampled_from(FORMATS),
)
def test_any_rows_are_read_as_they_were_meant_and_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    cells: list[tuple[int, int, tuple[float, ...]]],
    suffix: str,
) -> None:
    path = tmp_path_factory.mktemp("trace") / f"t{suffix}"
    bundles = Ring.even(Namespace("t", "n"), 4).bundles
    lines = [
        f"{minute},{bundles[column]},2,{','.join(map(repr, rates))}"
        for minute, column, rates in cells
    ]
    traffic = read_traffic(write_rows(path, *lines))
    rows = {(minute, column): rates for minute, column, rates in cells}
    assert traffic.minutes == max(minute for minute, _ in rows) + 1
    for (minute, column), rates in rows.items():
        place = traffic.bundles.index(bundles[column])
        holds = [rows.get((m, column)) for m in range(minute + 1, traffic.minutes)]
        until = next((m for m, row in enumerate(holds, minute + 1) if row), traffic.minutes)
        for rate, value in zip(RATES, rates, strict=True):
            assert set(getattr(traffic, rate)[minute:until, place].tolist()) == {value}
            if minute == min(m for m, c in rows if c == column):
                assert not getattr(traffic, rate)[:minute, place].any()
    write_traffic(traffic, path)
    assert same(read_traffic(path), traffic)


@given(st.permutations(range(6)))
def test_rows_may_stand_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    lines = [f"{m},{b},{m + 1},{m},2,3,4" for m in (0, 2, 5) for b in (LOW, HIGH)]
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    one = read_traffic(write_rows(path, *lines))
    other = read_traffic(write_rows(path, *(lines[index] for index in order)))
    assert same(one, other)
    assert one.topics == other.topics


GOOD: Final = f"0,{LOW},1,1,1,1,1"


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], ": no rows"),
        (["", ""], ": no rows"),
        ([GOOD, f"-1,{LOW},1,1,1,1,1"], ":3: minute '-1': a whole number from 0 to 20159"),
        ([f"20160,{LOW},1,1,1,1,1"], ":2: minute '20160': a whole number from 0 to 20159"),
        ([f"0.5,{LOW},1,1,1,1,1"], ":2: minute '0.5'"),
        ([f"²,{LOW},1,1,1,1,1"], ":2: minute '²'"),
        ([f"{'9' * 5000},{LOW},1,1,1,1,1"], ":2: minute '99999"),
        (["", GOOD, "", f"1,{LOW},x,1,1,1,1"], ":5: topics 'x': a whole number from 0 to 1000000"),
        ([f"0,{LOW},-1,1,1,1,1"], ":2: topics '-1'"),
        ([f"0,{LOW},1,-1,1,1,1"], ":2: msg_rate_in '-1': a number from 0 to 1e+15"),
        ([f"0,{LOW},1,1,nan,1,1"], ":2: msg_rate_out 'nan'"),
        ([f"0,{LOW},1,1,1,inf,1"], ":2: bytes_in 'inf'"),
        ([f"0,{LOW},1,1,1,1,1e16"], ":2: bytes_out '1e16'"),
        ([GOOD, f"1,{LOW},1,1,1,1,"], ":3: bytes_out ''"),
        ([f"0,{LOW},1,1,1,1,many"], ":2: bytes_out 'many'"),
        ([GOOD, f"0,{HIGH},1,1,1,1"], ":3: 6 fields; expected 7: minute,bundle"),
        ([GOOD, f"0,{HIGH},1,1,1,1,1,1"], ":3: 8 fields; expected 7"),
        ([GOOD, f"1,{LOW},2,2,2,2,2", GOOD], f":4: a second row for minute 0 of {LOW}"),
        (["0,t/n,1,1,1,1,1"], ":2: bundle 't': a namespace is tenant/name"),
        (["0,t/n/0x10_0x20,1,1,1,1,1"], ":2: bundle '0x10_0x20': a bundle range is"),
        (["0,t/n/0x20000000_0x10000000,1,1,1,1,1"], ":2: bundle range"),
        (["0,t/../0x00000000_0x10000000,1,1,1,1,1"], ":2: bundle 't/..'"),
        (
            [f"0,{'t' * 600}/n/0x00000000_0x10000000,1,1,1,1,1"],
            ":2: a bundle's name of 624 letters",
        ),
        (
            [GOOD, f"0,{HIGH},1,1,1,1,1", "7,t/n/0x70000000_0x90000000,1,1,1,1,1"],
            f":4: bundles {LOW} and t/n/0x70000000_0x90000000 overlap",
        ),
        ([GOOD, f'1,"{LOW}\n",1,1,1,1,1'], ":3: a line break inside quotes"),
        ([GOOD, f'1,"{LOW},1,1,1,1,1'], ":3: unexpected end of data"),
        ([f'0,"{LOW}"x,1,1,1,1,1'], ":2: ',' expected after '\"'"),
        (["0" * 200_000], ":2: 1 fields; expected 7"),
        ([f'0,"{"t" * 100_000}",1,1,1,1,1'], ":2: a line break inside quotes, or a line without"),
        ([f'0,"{"t" * 200_000}",1,1,1,1,1'], "field larger than field limit"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, lines: list[str], complaint: str) -> None:
    assert complaint in refused(write_rows(tmp_path / "t.csv", *lines))


@pytest.mark.parametrize(
    "header",
    [
        "",
        "minute,bundle",
        f"{HEADER},color",
        HEADER.replace("topics", "topic"),
        HEADER.replace("bytes_out", "bytes_in"),
        f"{HEADER},minute",
    ],
)
def test_other_columns_are_refused(tmp_path: Path, header: str) -> None:
    message = refused(write_rows(tmp_path / "t.csv", header=header))
    assert message == f":1: the columns must be {HEADER}"


def columns(**other: Any) -> dict[str, Any]:
    """Two good rows of a Parquet trace, and what is wrong with them."""
    rates = {rate: [1.0, 1.0] for rate in RATES}
    return {"minute": [0, 1], "bundle": [LOW, LOW], "topics": [1, 1], **rates, **other}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"minute": [0, -1]}, " row 2: minute -1: a whole number from 0 to 20159"),
        ({"minute": [0, None]}, " row 2: minute None: a whole number"),
        ({"minute": [0.0, 0.5]}, " row 2: minute 0.5: a whole number"),
        ({"minute": [0.0, float("inf")]}, " row 2: minute inf: a whole number"),
        ({"minute": ["0", "1"]}, " row 1: minute '0': a whole number"),
        ({"minute": [0, 0]}, f" row 2: a second row for minute 0 of {LOW}"),
        ({"topics": [1, 1_000_001]}, " row 2: topics 1000001: a whole number from 0 to 1000000"),
        ({"bytes_in": [1.0, -0.5]}, " row 2: bytes_in -0.5: a number from 0 to 1e+15"),
        ({"bytes_in": [1.0, float("nan")]}, " row 2: bytes_in nan: a number"),
        ({"bytes_in": [None, 1.0]}, " row 1: bytes_in None: a number"),
        ({"bytes_in": [True, True]}, " row 1: bytes_in True: a number"),
        ({"bundle": [LOW, None]}, " row 2: bundle '': a namespace is tenant/name"),
        ({"bundle": [7, 7]}, " row 1: bundle '': a namespace is tenant/name"),
        ({"color": [1, 1]}, f": the columns must be {HEADER}"),
        ({rate: [] for rate in columns()}, ": no rows"),
    ],
)
def test_a_malformed_row_of_parquet_is_named(
    tmp_path: Path, wrong: Mapping[str, Any], complaint: str
) -> None:
    message = refused(write_parquet(tmp_path / "t.parquet", columns(**wrong)))
    assert message.startswith(complaint)


def test_whole_floats_and_strings_of_few_kinds_are_read_from_parquet(tmp_path: Path) -> None:
    pyarrow = import_module("pyarrow")
    table = columns(
        minute=[0.0, 1.0],
        bundle=pyarrow.array([LOW, LOW]).dictionary_encode(),
        bytes_in=pyarrow.array([3, 4], pyarrow.uint32()),
    )
    assert of(read_traffic(write_parquet(tmp_path / "t.parquet", table)), LOW) == [3, 4]


def test_of_several_second_rows_the_first_in_the_file_is_named(tmp_path: Path) -> None:
    lines = [f"{minute},{LOW},1,1,1,1,1" for minute in (*range(50), 40, 3, 2)]
    message = refused(write_rows(tmp_path / "t.csv", *lines))
    assert message == f":52: a second row for minute 40 of {LOW}"


def test_rows_of_parquet_are_counted_through_the_file(tmp_path: Path) -> None:
    count = 70_000
    rates = dict.fromkeys(RATES, np.ones(count))
    rates["bytes_in"] = np.append(np.ones(count - 1), -1)
    ring = Ring.even(Namespace("t", "n"), 4).bundles
    table = {
        "minute": np.arange(count) // 4,
        "bundle": [str(ring[row % 4]) for row in range(count)],
        "topics": np.ones(count, np.int32),
        **rates,
    }
    path = write_parquet(tmp_path / "t.parquet", table)
    assert refused(path).startswith(" row 70000: bytes_in -1.0")


def test_more_rows_and_bundles_than_are_held_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{minute},{LOW},1,1,1,1,1" for minute in range(5)]
    for module in ("trace_files", "tables"):
        monkeypatch.setattr(f"broker_ctl.simulation.traces.{module}.MOST_CELLS", 4)
    assert refused(write_rows(tmp_path / "t.csv", *lines)) == ":6: more than 4 rows"
    assert refused(write_rows(tmp_path / "t.parquet", *lines)) == ": 5 rows; at most 4"
    monkeypatch.setattr("broker_ctl.simulation.traces.trace_files.MOST_BUNDLES", 1)
    path = write_rows(tmp_path / "t.csv", lines[0], f"0,{HIGH},1,1,1,1,1")
    assert refused(path) == ":3: more than 1 bundles"


def test_a_trace_that_is_too_large_is_refused(tmp_path: Path) -> None:
    ring = Ring.even(Namespace("t", "n"), 800).bundles
    lines = [f"{20_159 if index else 0},{bundle},1,1,1,1,1" for index, bundle in enumerate(ring)]
    message = refused(write_rows(tmp_path / "t.csv", *lines))
    assert message == ": 20160 minutes of 800 bundles; at most 16000000 when multiplied"


def test_too_many_topics_are_refused(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv", f"0,{LOW},600000,1,1,1,1", f"0,{HIGH},600000,1,1,1,1")
    assert refused(path) == ": 1200000 topics; at most 1000000"


@pytest.mark.parametrize("name", ["t.txt", "t", "t.csv.gz"])
def test_another_format_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(HEADER)
    assert refused(tmp_path / name) == ": a name that ends in .csv or .parquet"


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path / name)
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    assert refused(tmp_path / name)
    with pytest.raises(SettingsError, match="nowhere"):
        write_traffic(scenario("diurnal", hours=1).traffic, tmp_path / "nowhere" / name)


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With None in its place, Python does not find the module.
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'broker-ctl[pipeline]'" in refused(tmp_path / "t.parquet")
    write_rows(tmp_path / "t.csv", GOOD)
    assert read_traffic(tmp_path / "t.csv").minutes == 1
