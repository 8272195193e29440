"""One Spark session for all tests of the pipeline, and frames made by hand."""

import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from broker_ctl.pipeline.tables import Table
from tests.support.pipeline.spark import SharedSpark

# What is left out of a row is null, whatever the table says.
Frame = Callable[..., DataFrame]


_SPARK = pytest.StashKey[SharedSpark]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts Java belongs to the slow half, before `-m` leaves that out.

    Open formats need jars that are not there: their tests have a mark, and a run, of their own.
    """
    for item in items:
        starts_java = {"spark", "shared_spark"} & {*getattr(item, "fixturenames", ())}
        if starts_java and item.get_closest_marker("open_tables") is None:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def shared_spark(request: pytest.FixtureRequest) -> Iterator[SharedSpark]:
    """Starts Spark only when a test asks for its session."""
    shared = request.session.stash[_SPARK] = SharedSpark()
    yield shared
    shared.stop()


@pytest.fixture
def spark(shared_spark: SharedSpark) -> SparkSession:
    """A small session, the same for all tests up to one that fails."""
    return shared_spark.session()


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item) -> Iterator[None]:
    """A test at its time limit waits for Java, even to unwind: so Java is ended first."""
    set_timer = yield
    if callable(fail := signal.getsignal(signal.SIGALRM)):

        def kill_and_fail(number: int, frame: FrameType | None) -> None:
            if _SPARK in item.session.stash:
                item.session.stash[_SPARK].kill()
            fail(number, frame)

        signal.signal(signal.SIGALRM, kill_and_fail)
    return set_timer


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """A failed test may have broken the session: the next test gets a new one."""
    is_failed = call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception)
    if is_failed and _SPARK in item.session.stash:
        item.session.stash[_SPARK].discard()


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    """Makes a frame of a table's columns from rows with some of them."""

    def make(table: Table, *rows: dict[str, Any]) -> DataFrame:
        fields = [StructField(each.name, each.dataType) for each in table.schema.fields]
        values = [tuple(row.get(each.name) for each in fields) for row in rows]
        assert all(set(row) <= set(table.schema.names) for row in rows)
        return spark.createDataFrame(values, StructType(fields))

    return make
