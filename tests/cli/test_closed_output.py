"""A command whose standard output is closed or full ends with one message."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", ["--help", "--version"])
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">&-", "it is closed"), ("> /dev/full", "No space left on device")]
)
def test_an_output_that_cannot_be_written_is_one_message(
    words: str, redirection: str, reason: str
) -> None:
    command = f'"{sys.executable}" -m broker_ctl {words} {redirection}'
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"Error: cannot write to standard output: {reason}\n",
    )
