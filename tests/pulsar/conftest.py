"""One real Pulsar cluster for all marked tests of a run, and the figures that they measure."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pulsar.command import FIGURES
from tests.support.pulsar.choice import Choice
from tests.support.pulsar.cluster import PulsarCluster, pulsar_cluster
from tests.support.pulsar.distribution import Distribution, PulsarMissing, distribution

_DEADLINE_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A marked test may wait for a cluster to start: five JVMs on a busy machine."""
    for item in items:
        is_slow = item.get_closest_marker("pulsar") is not None
        if is_slow and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_DEADLINE_S))


@pytest.fixture(scope="session")
def pulsar_distribution() -> Distribution:
    """A released Pulsar: `class_path` and `java`; brought by Maven at the first use."""
    try:
        return distribution(Choice.of_environment().version)
    except PulsarMissing as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def cluster(
    pulsar_distribution: Distribution, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarCluster]:
    """Three brokers for the whole run: leave them running, and work in namespaces of your own."""
    manager = Choice.of_environment().manager
    directory = tmp_path_factory.mktemp("pulsar")
    with pulsar_cluster(directory, pulsar_distribution, settings=manager.settings) as running:
        yield running


@pytest.fixture(scope="session")
def figures() -> Iterator[dict[str, Any]]:
    """What `tests/pulsar/run --json` prints: put your figures under a key of your own."""
    measured: dict[str, Any] = {}
    yield measured
    if target := os.environ.get(FIGURES):
        Path(target).write_text(json.dumps(measured), encoding="utf-8")
