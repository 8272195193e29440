"""Progress of a benchmark, for people: standard output is for the result."""

import sys
import time


def report_progress(text: str) -> None:
    """Write a line with the time to standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()
