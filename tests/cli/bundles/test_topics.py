"""``broker-ctl topics`` and ``broker-ctl brokers`` for what one broker carries."""

import asyncio
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from broker_ctl.cli.main import main
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import BUNDLES, RING, TOPICS
from tests.support.http.web_server import free_port

TOPIC = TOPICS[0]
BUNDLE = RING.bundle_of(TOPIC)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as served:
        yield served


def loaded(cluster: Cluster) -> set[str]:
    return set(asyncio.run(cluster.leader.dataplane.topics(BUNDLE)))


def test_a_topic_is_unloaded_at_its_owner_and_its_bundle_stays(cluster: Cluster) -> None:
    asyncio.run(cluster.leader.serve(BUNDLE))
    owner, token = cluster.leader.broker_id, cluster.world.tokens[BUNDLE]
    refused = cluster.run("topics", "unload", str(TOPIC), stdin="n\n")
    assert refused.exit_code == 1
    assert f"Unload {TOPIC} of {BUNDLE} at {owner}?" in refused.stderr
    dry = cluster.run("topics", "unload", str(TOPIC), "--dry-run")
    assert (dry.exit_code, dry.stdout) == (0, f"would unload {TOPIC} of {BUNDLE} at {owner}\n")
    assert str(TOPIC) in loaded(cluster)
    done = cluster.json("topics", "unload", str(TOPIC), "--yes")
    assert (done["result"], str(TOPIC) in loaded(cluster)) == ("unloaded", False)
    assert (cluster.world.owners[BUNDLE], cluster.world.tokens[BUNDLE]) == (owner, token)
    again = cluster.run("topics", "unload", str(TOPIC), "--yes")
    assert again.exit_code == 1
    assert "is not loaded" in again.stderr


def test_of_a_bundle_that_nobody_owns_nothing_is_unloaded_or_assigned(cluster: Cluster) -> None:
    assert cluster.json("topics", "unload", str(TOPIC))["result"] == "nothing"
    assert not cluster.world.owners


def test_an_invalid_name_is_an_error_before_anything_is_asked() -> None:
    command = ["topics", "unload", "a/b", "--url", "http://127.0.0.1:1"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "a topic is x" in result.stderr


def test_a_broker_shows_its_topics(cluster: Cluster) -> None:
    for bundle in BUNDLES:
        asyncio.run(cluster.follower.serve(bundle))
    found = cluster.json("brokers", "topics")
    assert list(found["t/ns"][str(BUNDLE.range)]) == ["persistent"]
    result = cluster.run("brokers", "topics", "--limit", "3")
    assert (result.exit_code, result.stdout.count("persistent://")) == (0, 3)
    assert "only the first 3 topics are shown" in result.stderr
    assert cluster.json("brokers", "topics", "--namespace", "t/other") == {}
    assert cluster.run("brokers", "topics", "--limit", "0").exit_code == 2


def test_a_broker_shows_its_load_report(cluster: Cluster) -> None:
    broker_id = cluster.follower.broker_id
    assert cluster.json("brokers", "load-report")["brokerId"] == broker_id
    result = cluster.run("brokers", "load-report")
    assert ["brokerId", broker_id] in [line.split() for line in result.stdout.splitlines()]


@pytest.mark.parametrize("verb", ["topics", "topics unload", "brokers topics"])
def test_help_shows_an_example(verb: str) -> None:
    result = CliRunner().invoke(main, [*verb.split(), "--help"])
    assert result.exit_code == 0
    assert f"broker-ctl {verb}" in result.stdout.partition("Example")[2]
