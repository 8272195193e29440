"""Two processes take the same segments in to the same tables of Iceberg or Delta, at once.

    python -m tests.pipeline.two_ingests --format iceberg
    python -m tests.pipeline.two_ingests --format delta

Each segment is a batch of the one; two are a batch of the other. Both must end, and every line id
must stand in the tables as often as the segments have rows for it. It runs in the environment that
tests/pipeline/open_tables/run makes. Prints one JSON object; the exit code is 1 where something was
lost or repeated, or an ingest failed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from broker_ctl.pipeline.settings import Format
from tests.support.pipeline.ingest_process import ONE_BY_ONE, Ingest, differences
from tests.support.pipeline.open_formats import OPEN
from tests.support.pipeline.segment_files import small_history

_SEGMENTS = 6
_DEADLINE_S = 1_800.0


def two_ingests(directory: Path, form: Format) -> dict[str, Any]:
    """Begin both, wait for their ends, and count."""
    ingest = Ingest(directory, form)
    expected = small_history(ingest.history, _SEGMENTS)
    a_segment = next(ingest.history.iterdir()).stat().st_size
    began_s = time.monotonic()
    running = [ingest.start(batch_bytes) for batch_bytes in (ONE_BY_ONE, a_segment + 1)]
    ends = [_end(each) for each in running]
    took_s = round(time.monotonic() - began_s, 1)
    found = differences(expected, ingest.found())
    return {"format": form, "took_s": took_s, "ingests": ends, **found}


def _end(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    said, complaint = process.communicate(timeout=_DEADLINE_S)
    if process.returncode:
        return {"exit_code": process.returncode, "said": complaint.decode()}
    return {"exit_code": 0, **json.loads(said)}


def main() -> None:
    """Take in twice at once, count, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", choices=[each.value for each in OPEN], default="iceberg")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = two_ingests(Path(directory), Format(arguments.format))
    sys.stdout.write(json.dumps(found) + "\n")
    has_failed = any(each["exit_code"] for each in found["ingests"])
    sys.exit(1 if has_failed or found["lost"] or found["unknown"] or found["wrong"] else 0)


if __name__ == "__main__":
    main()
