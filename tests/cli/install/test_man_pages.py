"""Manual pages are written from the commands, and are valid roff."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker_ctl.cli.install import every_command, manual_page
from broker_ctl.cli.main import main

# Requests that pages use; a line of text never begins like one.
REQUEST = re.compile(r"\.(TH|SH|PP|TP|B|BR|nf|fi)( |$)")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    result = CliRunner().invoke(main, ["man-pages", "export", str(tmp_path)])
    assert result.exit_code == 0, result.output
    return tmp_path


def test_every_listed_command_has_a_page_with_its_options(pages: Path) -> None:
    names = set()
    for ctx in every_command(click.Context(main, info_name="broker-ctl")):
        name = ctx.command_path.replace(" ", "-")
        names.add(f"{name}.1")
        text = (pages / f"{name}.1").read_text(encoding="utf-8")
        for option in ctx.command.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                assert record[0].replace("-", "\\-") in text, (name, record[0])
        assert ".SH EXAMPLES" in text, name
    assert {path.name for path in pages.iterdir()} == names
    assert len(names) > 100


def test_a_line_of_text_is_not_taken_for_a_request(pages: Path) -> None:
    for path in pages.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith((".", "'")):
                assert REQUEST.match(line), (path.name, line)


def test_text_that_looks_like_a_request_is_escaped() -> None:
    command = click.Command("x", help=".B begins\n\n\b\n'br one\n.two \\three", short_help="x")
    lines = manual_page(click.Context(command, info_name="x")).splitlines()
    assert {"\\&.B begins", "\\&'br one", "\\&.two \\ethree"} <= set(lines)


def test_groff_has_no_warning(pages: Path) -> None:
    if (groff := shutil.which("groff")) is None:
        pytest.skip("groff is not installed")
    files = sorted(map(str, pages.iterdir()))
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-z", *files], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "man1"
    arguments = ["man-pages", "export", str(directory), "--dry-run", "--output", "json"]
    found = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert found["result"] == "dry_run"
    assert str(directory / "broker-ctl-plan.1") in found["files"]
    assert not directory.exists()
