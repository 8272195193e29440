"""Trace files."""

from pathlib import Path

import pytest

from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.curves import TopicRates
from broker_ctl.simulation.traces.trace import parse_trace, read_trace

HEADER = "minute,topic,msg_rate_in,msg_rate_out,bytes_in,bytes_out"


def test_a_row_holds_until_the_topics_next_row() -> None:
    curves = parse_trace([HEADER, "2,a,0,0,0,0", "0,a,1,2,10,20", "1,b,5,0,50,0"], "t")
    a = curves["persistent://public/default/a"]
    b = curves["persistent://public/default/b"]
    assert [a.at(t_s).msg_rate_in for t_s in (0, 119, 120, 999)] == [1, 1, 0, 0]
    assert a.at(0) == TopicRates(1, 2, 10, 20, 1, 1)
    assert [b.at(t_s).bytes_in for t_s in (0, 60)] == [0, 50]
    assert (b.at(60).producers, b.at(60).consumers) == (1, 0)


def test_empty_lines_are_not_rows() -> None:
    assert len(parse_trace([HEADER, "", "0,a,1,1,1,1", ""], "t")) == 1


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "t:1: the first line must be minute,topic"),
        (["minute,topic"], "t:1: the first line must be"),
        ([HEADER], "t: no rows"),
        ([HEADER, "0,a,1,1,1"], "t:2: 5 fields; expected 6"),
        ([HEADER, "0,a,1,1,1,1", "x,a,1,1,1,1"], "t:3: minute 'x'"),
        ([HEADER, "-1,a,1,1,1,1"], "t:2: minute '-1'"),
        ([HEADER, "²,a,1,1,1,1"], "t:2: minute '²'"),
        ([HEADER, "0,a,1,-1,1,1"], "t:2: msg_rate_out '-1'"),
        ([HEADER, "0,a,1,1,nan,1"], "t:2: bytes_in 'nan'"),
        ([HEADER, "0,a,1,1,1,inf"], "t:2: bytes_out 'inf'"),
        ([HEADER, "0,a/b,1,1,1,1"], "t:2: 'a/b': a topic is"),
        ([HEADER, "0,a,1,1,1,1", "0,public/default/a,1,1,1,1"], "t:3: a second row for minute 0"),
        ([HEADER, '0,"a,1,1,1,1'], "t:2: unexpected end of data"),
    ],
)
def test_a_malformed_line_is_named(lines: list[str], complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_trace(lines, "t")
    assert f"trace {complaint}" in str(caught.value)


def test_a_file_that_is_not_text_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"trace\.csv"):
        read_trace(path)
