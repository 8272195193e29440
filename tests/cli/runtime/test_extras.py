"""What only an extra of the package installs is asked for by name, before any work is done."""

import subprocess
import sys
from pathlib import Path

import pytest

# As it is where the package was never installed.
WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
from broker_ctl.cli.main import main
main()
"""
REPORT = ("pipeline", "report", "profiles", "--to", "r.html")
PLOT = ("simulate", "diurnal", "--plot", "diurnal.svg")


@pytest.mark.parametrize(
    ("missing", "words", "said", "extra"),
    [
        ("matplotlib", REPORT, "the report needs matplotlib", "pipeline"),
        ("jinja2", REPORT, "the report needs jinja2", "pipeline"),
        ("matplotlib", PLOT, "a picture needs matplotlib", "plot"),
        (
            "pyspark",
            ("pipeline", "ingest", "h", "--tables", "t"),
            "the pipeline needs pyspark",
            "pipeline",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, missing: str, words: tuple[str, ...], said: str, extra: str
) -> None:
    done = subprocess.run(
        (sys.executable, "-c", WITHOUT, missing, *words),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    command = f"run: pip install 'broker-ctl[{extra}]'"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {said}, which is not installed: {command}\n"
    assert not list(tmp_path.iterdir())
