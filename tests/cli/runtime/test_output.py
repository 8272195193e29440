"""Tables for people."""

import pytest

from broker_ctl.cli.runtime.output import print_table


def test_a_table_of_ten_thousand_rows_has_each_in_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [(f"t-{number}", [1, 2], None) for number in range(10_000)]
    print_table("topics", ("partition", "in sync", "note"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "topics",
        "",
        "  partition   in sync   note",
        "  ---------   -------   ----",
        "  t-0         [1,2]     -",
    ]
    assert lines[-2:] == ["  t-9999      [1,2]     -", ""]


def test_rows_of_a_short_table_read_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("", ("partition", "note"), [("t-0", None), ("t-1", "offline")])
    lines = capsys.readouterr().out.splitlines()
    assert "  t-1         offline" in lines
    # In a pipe nothing is padded.
    assert lines == [line.rstrip() for line in lines]
