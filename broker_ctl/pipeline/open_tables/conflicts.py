"""Commits that another writer has overtaken: they are made again, from what that one has left."""

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from broker_ctl.errors import PipelineError
from broker_ctl.pipeline.spark_errors import sentence_of
from broker_ctl.retry import Backoff

_T = TypeVar("_T")
_BACKOFF: Final = Backoff(first_s=0.2, factor=2.0, max_s=5.0)
_MOST_ATTEMPTS: Final = 30
# What Iceberg and Delta say when a commit would not be serializable, or a table was created or
# changed meanwhile.
_CONFLICTS: Final = (
    "org.apache.iceberg.exceptions.ValidationException",
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.AlreadyExistsException",
    "DELTA_CONCURRENT_",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "DELTA_TABLE_ALREADY_EXISTS",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "FIELD_ALREADY_EXISTS",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "MetadataChangedException",
    "ProtocolChangedException",
)


def retry_conflicts(what: str, step: Callable[[], _T]) -> _T:
    """Make a step that reads a table and commits to it, again where another commit came first.

    Raises:
        PipelineError: others came first every time.
    """
    rng = random.Random()  # noqa: S311  pauses of two writers must differ
    failures = 0
    while True:
        try:
            return step()
        except (PySparkException, Py4JError) as error:
            if not is_conflict(error):
                raise
            failures += 1
            if failures == _MOST_ATTEMPTS:
                raise PipelineError(
                    f"{what}: {failures} commits in a row were overtaken by other writers; the last"
                    f" one: {sentence_of(error)}"
                ) from error
            time.sleep(_BACKOFF.delay_s(failures, rng))


def is_conflict(error: Exception) -> bool:
    """Whether another writer came first; `location.settings_for` has errors name their causes."""
    text = str(error)
    return any(mark in text for mark in _CONFLICTS)
