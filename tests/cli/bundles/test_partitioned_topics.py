"""``broker-ctl topics`` for partitioned topics, and for where topics lie."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from broker_ctl.broker.namespaces.partitioned_topics import MAX_PARTITIONS
from broker_ctl.cli.main import main
from broker_ctl.core.model.names import Topic
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import BUNDLES, NAMESPACE, RING
from tests.support.http.web_server import free_port

TOPIC = Topic("persistent", NAMESPACE, "a b+ä%41")
VERBS = [
    *("create-partitioned-topic", "update-partitioned-topic", "delete-partitioned-topic"),
    *("list-partitioned-topics", "get-partitioned-topic-metadata", "partitioned-lookup"),
    "bundle-range",
]
CREATE = ["topics", "create-partitioned-topic", "--yes"]
UPDATE = ["topics", "update-partitioned-topic"]
DELETE = ["topics", "delete-partitioned-topic"]
LIST = ["topics", "list-partitioned-topics", str(NAMESPACE)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as served:
        yield served


def partitions(cluster: Cluster, topic: Topic = TOPIC) -> Any:
    return cluster.json("topics", "get-partitioned-topic-metadata", str(topic))["partitions"]


def partition_of(topic: Topic, number: int) -> Topic:
    return Topic(topic.domain, topic.namespace, f"{topic.local}-partition-{number}")


def spread(cluster: Cluster) -> None:
    """The bundles of the ring lie on both brokers in turn."""
    brokers = (cluster.leader, cluster.follower)
    for number, bundle in enumerate(BUNDLES):
        cluster.world.assign(bundle, brokers[number % 2].broker_id)


def test_a_partitioned_topic_is_created_extended_and_deleted(cluster: Cluster) -> None:
    assert partitions(cluster) == 0
    assert cluster.json(*CREATE, str(TOPIC), "--partitions", "4") == {
        "result": "created",
        "sentence": f"created {TOPIC} with 4 partitions",
    }
    assert partitions(cluster) == 4
    shown = cluster.run("topics", "get-partitioned-topic-metadata", str(TOPIC))
    assert ["partitions", "4"] in [line.split() for line in shown.stdout.splitlines()]
    again = cluster.run(*CREATE, str(TOPIC), "-p", "4")
    assert again.exit_code == 1
    assert f"{TOPIC} exists already (409)" in again.stderr
    assert cluster.json(*UPDATE, str(TOPIC), "-p", "6", "--yes")["result"] == "updated"
    assert partitions(cluster) == 6
    assert cluster.json(*DELETE, str(TOPIC), "--yes")["result"] == "deleted"
    assert partitions(cluster) == 0


def test_more_partitions_and_none_are_asked_for_first(cluster: Cluster) -> None:
    cluster.json(*CREATE, str(TOPIC), "-p", "4")
    for verb, sentence in (
        ([*UPDATE, str(TOPIC), "-p", "6"], f"update {TOPIC} from 4 to 6 partitions"),
        ([*DELETE, str(TOPIC)], f"delete partitioned topic {TOPIC}, which has 4 partitions"),
    ):
        refused = cluster.run(*verb, stdin="n\n")
        assert refused.exit_code == 1
        assert f"{sentence[0].upper()}{sentence[1:]}?" in refused.stderr
        dry = cluster.run(*verb, "--dry-run")
        assert (dry.exit_code, dry.stdout) == (0, f"would {sentence}\n")
        assert partitions(cluster) == 4


def test_what_the_daemon_refuses_says_why(cluster: Cluster) -> None:
    cluster.json(*CREATE, str(TOPIC), "-p", "4")
    fewer = cluster.run(*UPDATE, str(TOPIC), "-p", "3", "--yes")
    assert fewer.exit_code == 1
    assert "their number can only grow, not shrink to 3 (422)" in fewer.stderr
    partition = cluster.run(*CREATE, str(partition_of(TOPIC, 0)), "-p", "3")
    assert partition.exit_code == 1
    assert "is kept for the partitions of a topic (412)" in partition.stderr
    missing = cluster.run(*CREATE, "t/other/x", "-p", "3")
    assert missing.exit_code == 1
    assert "namespace t/other does not exist (404)" in missing.stderr


@pytest.mark.parametrize(
    "verb", [[*UPDATE, "-p", "4", "--yes"], [*DELETE, "--yes"], ["topics", "partitioned-lookup"]]
)
def test_a_topic_without_partitions_is_an_error_before_anything_is_done(
    cluster: Cluster, verb: list[str]
) -> None:
    result = cluster.run(*verb, "t/ns/x")
    assert result.exit_code == 1
    assert "persistent://t/ns/x is not partitioned" in result.stderr
    assert not cluster.world.owners


def test_partitioned_topics_are_listed(cluster: Cluster) -> None:
    assert cluster.json(*LIST) == []
    other = Topic("non-persistent", NAMESPACE, "n")
    for topic in (TOPIC, other):
        cluster.json(*CREATE, str(topic), "-p", "1")
    assert cluster.json(*LIST) == [str(TOPIC), str(other)]
    result = cluster.run(*LIST)
    assert result.exit_code == 0
    assert [line.strip() for line in result.stdout.splitlines()[-3:-1]] == [str(TOPIC), str(other)]


def test_each_partition_is_shown_with_its_one_owner(cluster: Cluster) -> None:
    spread(cluster)
    cluster.json(*CREATE, str(TOPIC), "-p", "12")
    found = cluster.json("topics", "partitioned-lookup", str(TOPIC))
    for number, row in enumerate(found):
        partition = partition_of(TOPIC, number)
        bundle = RING.bundle_of(partition)
        owner = cluster.world.owners[bundle]
        assert (row["topic"], row["bundle"]) == (str(partition), str(bundle))
        assert (row["broker"], row["url"]) == (owner, cluster.world.brokers[owner].native_url)
    assert len(found) == 12
    assert {row["broker"] for row in found} == set(cluster.world.brokers)
    result = cluster.run("topics", "partitioned-lookup", str(TOPIC))
    # A name with a blank takes two words.
    lines = [line.split()[2:] for line in result.stdout.splitlines() if "-partition-" in line]
    assert lines == [[row["broker"], row["bundle"], row["url"]] for row in found]


def test_redirects_are_followed_and_what_nobody_owns_is_assigned(cluster: Cluster) -> None:
    cluster.json(*CREATE, str(TOPIC), "-p", "12")
    found = cluster.json("topics", "partitioned-lookup", str(TOPIC))
    assert {row["broker"] for row in found} == {cluster.leader.broker_id}
    assert any(row["redirects"] for row in found)
    assert set(cluster.world.owners) == {RING.bundle_of(partition_of(TOPIC, n)) for n in range(12)}


def test_sixteen_partitions_are_looked_up_at_a_time(cluster: Cluster) -> None:
    spread(cluster)
    cluster.json(*CREATE, str(TOPIC), "-p", "32")
    full, in_flight = asyncio.Event(), [0, 0]

    async def gate() -> None:
        now, most = in_flight[0] + 1, in_flight[1]
        in_flight[:] = now, max(now, most)
        if now == 16:
            # A seventeenth would come while all wait here.
            await asyncio.sleep(0.1)
            full.set()
        await full.wait()
        in_flight[0] -= 1

    cluster.follower.lookup.gate = gate
    assert len(cluster.json("topics", "partitioned-lookup", str(TOPIC))) == 32
    assert in_flight == [0, 16]


def test_one_lookup_that_fails_is_the_error_of_all(cluster: Cluster) -> None:
    cluster.json(*CREATE, str(TOPIC), "-p", "3")
    cluster.world.leader_id = None
    result = cluster.run("topics", "partitioned-lookup", str(TOPIC))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no broker leads at present (503); retry in a few seconds" in result.stderr


def test_the_range_of_a_topics_bundle_is_shown_and_nothing_is_assigned(cluster: Cluster) -> None:
    span = str(RING.bundle_of(TOPIC).range)
    result = cluster.run("topics", "bundle-range", str(TOPIC))
    assert (result.exit_code, result.stdout) == (0, f"{span}\n")
    expected = {"topic": str(TOPIC), "range": span}
    assert cluster.json("topics", "bundle-range", str(TOPIC)) == expected
    assert not cluster.world.owners


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", str(MAX_PARTITIONS + 1)])
@pytest.mark.parametrize("verb", [CREATE, UPDATE])
def test_a_number_that_cannot_be_is_a_mistake_in_the_command(verb: list[str], number: str) -> None:
    result = CliRunner().invoke(main, [*verb, "t/ns/x", "--partitions", number])
    assert result.exit_code == 2


@pytest.mark.parametrize("verb", [*VERBS, "list-partitioned-topics"])
def test_an_invalid_name_is_an_error_before_anything_is_asked(verb: str) -> None:
    more = ["-p", "1"] if verb.startswith(("create", "update")) else []
    command = ["topics", verb, "a/b/c/d", *more, "--url", "http://127.0.0.1:1"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "a/b/c/d" in result.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(verb: str) -> None:
    result = CliRunner().invoke(main, ["topics", verb, "--help"])
    assert result.exit_code == 0
    assert f"broker-ctl topics {verb}" in result.stdout.partition("Example")[2]
