"""The benchmark of the pipeline, on a history that is far too small to say anything."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("pipeline.py")
KEYS = {
    *("rows", "ingest_rows_s", "profile_rows_s", "profile_duckdb_rows_s", "scaling_1x_4x"),
    *("peak_rss_mb", "peak_rss_1x_mb", "synth_rows_s"),
}


@pytest.mark.timeout(400)
def test_a_small_history_is_one_object(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, SCRIPT, "--json", "--rows", "20000", "--hours", "1"),
            *("--master", "local[2]", "--directory", str(tmp_path)),
        ],
        capture_output=True,
        check=True,
        timeout=380,
    )
    found = json.loads(done.stdout)
    assert set(found) == KEYS
    assert found["rows"] >= 20_000
    assert all(value > 0 for value in found.values())
    assert list(tmp_path.iterdir()) == []
