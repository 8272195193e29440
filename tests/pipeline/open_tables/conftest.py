"""One Spark session with the jars of Iceberg and Delta."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from broker_ctl.pipeline.session import open_session
from tests.support.pipeline.open_formats import open_settings


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the catalog is, and the tables."""
    return tmp_path_factory.mktemp("open-tables")


@pytest.fixture(scope="session")
def spark(place: Path) -> Iterator[SparkSession]:
    """A session of its own: the jars come when Java starts."""
    session = open_session("local[2]", open_settings(place), os.environ)
    yield session
    session.stop()
