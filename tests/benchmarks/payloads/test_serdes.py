"""The benchmark of JSON beside the event loop rehearses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "serdes.py"


@pytest.mark.slow
def test_a_rehearsal_has_a_row_for_each_size_and_direction() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", "--budget", "0.1"],
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)
    assert found["wins"] is any(row["wins"] for row in found["rows"])
    assert [row["direction"] for row in found["rows"]] == ["decode", "encode"] * 5
    for row in found["rows"]:
        assert row["ways"].keys() == {"inline", "thread", "path_threads", "processes"}
        assert all(min(way.values()) > 0 for way in row["ways"].values())
