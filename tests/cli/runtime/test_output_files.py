"""Files that verbs write."""

from pathlib import Path

import click
import pytest

from broker_ctl.cli.runtime.output import atomic_output


def test_a_file_is_there_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "moves.csv"
    with atomic_output(path) as beside:
        beside.write_text("whole")
        assert beside.suffix == ".csv"
        assert not path.exists()
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def break_off(path: Path, end: BaseException) -> None:
    with atomic_output(path) as beside:
        beside.write_text("half")
        raise end


@pytest.mark.parametrize("end", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_breaks_off_leaves_the_former_file(tmp_path: Path, end: BaseException) -> None:
    path = tmp_path / "moves.csv"
    path.write_text("former")
    with pytest.raises((KeyboardInterrupt, click.ClickException)) as caught:
        break_off(path, end)
    if isinstance(end, OSError):
        assert str(caught.value) == f"{path}: No space left on device"
    assert path.read_text() == "former"
    assert list(tmp_path.iterdir()) == [path]
