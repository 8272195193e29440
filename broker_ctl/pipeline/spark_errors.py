"""Translates Spark's errors into one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from broker_ctl.errors import PipelineError

# At the end of a traceback of a Python worker, one of ours, which is a sentence; and any other: the
# first line that is not indented.
_OURS: Final = re.compile(r"^broker_ctl\.errors\.\w+: (.*)$", re.MULTILINE)
_RAISED: Final = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)$", re.MULTILINE
)


@contextmanager
def translate_spark_errors(what: str) -> Iterator[None]:
    """Translate errors of Spark within the block into PipelineError.

    Raises:
        PipelineError: ``what`` failed, and why.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"{what}: {sentence_of(error)}") from error


def sentence_of(error: Exception) -> str:
    """Its first line, or the exception of a worker."""
    text = str(error)
    # Of a chain the last is what was made of the others.
    if raised := _OURS.findall(text) or _RAISED.findall(text):
        return str(raised[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
