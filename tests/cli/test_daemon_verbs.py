"""Verbs that ask a daemon, as an operator types them."""

import asyncio
import json
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.cli.main import main
from broker_ctl.cli.runtime.client import _location
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpReply
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, NAMESPACE, RING, TOKEN, entry
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting

BUNDLE = str(BUNDLES[1])
VERBS = [
    *(["status"], ["leader"], ["leader", "show"], ["topics", "lookup"], ["explain"]),
    *(["brokers"], ["brokers", "list"]),
    *(["namespaces", "create"], ["namespaces", "list"], ["namespaces", "delete"]),
    *(["namespaces", "get-clusters"], ["namespaces", "set-clusters"]),
    *(["tenants", "list"], ["tenants", "get"], ["tenants", "create"]),
    *(["tenants", "update"], ["tenants", "delete"]),
    *(["clusters", "list"], ["clusters", "get"], ["clusters", "create"]),
    *(["clusters", "update"], ["clusters", "set-peers"], ["clusters", "delete"]),
    *(["bundles"], ["bundles", "list"], ["bundles", "owner"]),
    *(["bundles", "unload"], ["bundles", "split"], ["bundles", "merge"], ["bundles", "move"]),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as served:
        yield served


# What is shown.


def test_status_shows_session_bundles_and_decisions(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[1], cluster.follower.broker_id)
    cluster.follower.journal.record(entry())
    result = cluster.run("status")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["state", "connected"] in lines
    assert ["lease", "remaining", "1.5", "s"] in lines
    assert ["is", "leader", "no"] in lines
    assert [BUNDLE, "owned", "101"] in lines
    assert "5 % above the mean" in result.stdout
    assert cluster.json("status")["broker"] == cluster.follower.broker_id


def test_status_of_the_cluster_comes_from_the_leader(cluster: Cluster) -> None:
    result = cluster.run("status", "--cluster")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [cluster.leader.broker_id, "50.0%"] in [line[:2] for line in lines]
    assert cluster.json("status", "--cluster")["usage_imbalance"] == 1.25


def test_brokers_are_listed_and_the_leader_is_marked(cluster: Cluster) -> None:
    leader_id = cluster.leader.broker_id
    rows = cluster.json("brokers", "list")
    assert {row["broker"]: row["leads"] for row in rows} == {
        leader_id: True,
        cluster.follower.broker_id: False,
    }
    assert [leader_id, "yes"] in [
        s.split()[:2] for s in cluster.run("brokers", "list").stdout.splitlines()
    ]
    assert cluster.json("leader", "show")["brokerId"] == leader_id
    assert cluster.run("leader", "show").stdout.startswith(leader_id)
    cluster.world.leader_id = None
    assert not any(row["leads"] for row in cluster.json("brokers", "list"))
    result = cluster.run("leader", "show")
    assert result.exit_code == 1
    assert "no broker leads at present" in result.stderr


def test_leader_without_a_subcommand_shows_the_leader(cluster: Cluster) -> None:
    url = ("--url", cluster.leader.url)
    for options in ((), url, (*url, "--output", "json")):
        bare, shown = cluster.run("leader", *options), cluster.run("leader", "show", *options)
        assert (bare.exit_code, bare.stdout) == (0, shown.stdout)
    text = cluster.run("leader", "--help").stdout
    assert "does the same as `broker-ctl leader show`" in " ".join(text.split())


@pytest.mark.parametrize("local", ["x", "a%2Fb", "süß", "50% off"])
def test_a_lookup_follows_redirects(cluster: Cluster, local: str) -> None:
    cluster.leader.lookup.placement = cluster.follower.broker_id
    topic = Topic("persistent", NAMESPACE, local)
    found = cluster.json("topics", "lookup", str(topic))
    assert found["topic"] == str(topic)
    assert found["bundle"] == str(RING.bundle_of(topic))
    assert found["broker"] == cluster.follower.broker_id
    assert [hop.rpartition("=")[2] for hop in found["redirects"]] == ["false", "true"]
    result = cluster.run("topics", "lookup", str(topic))
    assert result.exit_code == 0, result.output
    assert str(cluster.follower.urls.native_url) in result.stdout


def test_a_lookup_that_is_sent_round_in_circles_ends(cluster: Cluster) -> None:
    elsewhere = cluster.world.brokers[cluster.follower.broker_id]
    cluster.world.brokers[cluster.leader.broker_id] = elsewhere
    result = cluster.run("topics", "lookup", "t/ns/x")
    assert result.exit_code == 1
    assert "redirected more than 20 times" in result.stderr


def test_explain_asks_the_leader(cluster: Cluster) -> None:
    leader_id = cluster.leader.broker_id
    result = cluster.run("explain", leader_id)
    assert result.exit_code == 0, result.output
    assert "skipped   cluster: below threshold: 5 % above the mean" in result.stdout
    assert cluster.json("explain", leader_id)["subject"] == leader_id
    result = cluster.run("explain", "nobody")
    assert result.exit_code == 1
    assert "neither a live broker nor a bundle" in result.stderr


# Namespaces.


def test_namespaces_come_and_go(cluster: Cluster) -> None:
    assert cluster.run("namespaces", "create", "t/new", "--bundles", "2", "--yes").exit_code == 0
    assert len(cluster.world.rings[Namespace("t", "new")].bundles) == 2
    assert cluster.json("namespaces", "list", "t") == ["t/new", "t/ns"]
    assert cluster.json("namespaces", "list") == ["t/new", "t/ns"]
    again = cluster.run("namespaces", "create", "t/new")
    assert again.exit_code == 1
    assert "exists already (409)" in again.stderr
    assert cluster.run("namespaces", "delete", "t/new", stdin="n\n").exit_code == 1
    assert Namespace("t", "new") in cluster.world.rings
    assert cluster.run("namespaces", "delete", "t/new", "--yes").exit_code == 0
    assert Namespace("t", "new") not in cluster.world.rings


def test_a_namespace_wants_its_tenant_first(cluster: Cluster) -> None:
    missing = cluster.run("namespaces", "create", "shop/orders")
    assert missing.exit_code == 1
    assert "broker-ctl tenants create shop" in missing.stderr
    planned = cluster.json("tenants", "create", "shop", "--dry-run")
    assert planned["sentence"] == f"would create tenant shop, allowed in {CLUSTER}"
    assert cluster.json("tenants", "list") == ["t"]
    assert (
        cluster.json("tenants", "create", "shop", "--admin-role", "me", "--yes")["result"]
        == "created"
    )
    shown = {"adminRoles": ["me"], "allowedClusters": [CLUSTER]}
    assert cluster.json("tenants", "get", "shop") == shown
    assert ["allowedClusters", CLUSTER] in [
        line.split() for line in cluster.run("tenants", "get", "shop").stdout.splitlines()
    ]
    assert cluster.run("namespaces", "create", "shop/orders", "--yes").exit_code == 0
    refused = cluster.run("tenants", "delete", "shop", "--yes")
    assert refused.exit_code == 1
    assert "still has active namespaces" in refused.stderr
    assert cluster.run("namespaces", "delete", "shop/orders", "--yes").exit_code == 0
    assert cluster.json("tenants", "delete", "shop", "--dry-run")["result"] == "dry_run"
    assert cluster.run("tenants", "delete", "shop", stdin="n\n").exit_code == 1
    assert cluster.json("tenants", "delete", "shop", "--yes")["result"] == "deleted"
    assert cluster.run("tenants", "list").stdout.split()[-1] == "t"
    assert cluster.json("tenants", "list") == ["t"]


def test_clusters_come_and_go(cluster: Cluster) -> None:
    west = ["--service-url", "http://west:8080"]
    assert cluster.json("clusters", "create", "west", *west, "--dry-run")["result"] == "dry_run"
    assert cluster.json("clusters", "list") == [CLUSTER]
    assert cluster.run("clusters", "create", "west").exit_code == 2
    assert cluster.json("clusters", "create", "west", *west, "--yes")["result"] == "created"
    more = ["--broker-url", "pulsar://west:6650", "--yes"]
    assert cluster.json("clusters", "update", "west", *more)["result"] == "updated"
    data = {"serviceUrl": "http://west:8080", "brokerServiceUrl": "pulsar://west:6650"}
    assert cluster.json("clusters", "get", "west") == data
    assert cluster.run("clusters", "update", "west", "--yes").exit_code == 2
    assert cluster.json("clusters", "set-peers", CLUSTER, "--peer", "west", "--yes")
    assert cluster.json("clusters", "get", CLUSTER)["peerClusterNames"] == ["west"]
    assert cluster.run("clusters", "list").stdout.split()[-2:] == [CLUSTER, "west"]
    refused = cluster.run("clusters", "delete", CLUSTER, "--yes")
    assert "Cluster not empty" in refused.stderr
    assert cluster.json("clusters", "delete", "west", "--yes")["result"] == "deleted"


def test_a_namespace_is_let_live_in_other_clusters(cluster: Cluster) -> None:
    cluster.run("clusters", "create", "west", "--service-url", "http://west:8080", "--yes")
    both = ["--cluster", "west", "--cluster", CLUSTER]
    refused = cluster.run("namespaces", "set-clusters", "t/ns", *both, "--yes")
    assert "Cluster [west] is not in the list of allowed clusters" in refused.stderr
    allowed = ["--allowed-cluster", "west", "--allowed-cluster", CLUSTER]
    planned = cluster.json("tenants", "update", "t", *allowed, "--dry-run")
    assert planned["sentence"] == f"would let tenant t use west, {CLUSTER}, administered by nobody"
    assert cluster.json("tenants", "update", "t", *allowed, "--yes")["result"] == "updated"
    assert cluster.json("namespaces", "set-clusters", "t/ns", *both, "--yes")["result"] == "set"
    assert cluster.json("namespaces", "get-clusters", "t/ns") == [CLUSTER, "west"]


# Bundles.


def test_bundles_are_listed_with_their_owners(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[1], cluster.leader.broker_id)
    rows = cluster.json("bundles", "list", "t/ns")
    assert [row["owner"] for row in rows] == [None, cluster.leader.broker_id, None, None]
    result = cluster.run("bundles", "owner", BUNDLE)
    assert [BUNDLE, cluster.leader.broker_id, "101", "-"] in [
        line.split() for line in result.stdout.splitlines()
    ]
    gone = cluster.run("bundles", "owner", "t/ns/0x00000000_0x00000001")
    assert gone.exit_code == 1
    assert "is not a bundle" in gone.stderr


def test_an_unload_asks_and_is_sent_on_to_the_owner(cluster: Cluster) -> None:
    owner = cluster.leader.broker_id
    cluster.world.assign(BUNDLES[1], owner)
    refused = cluster.run("bundles", "unload", BUNDLE, stdin="n\n")
    assert (refused.exit_code, BUNDLES[1] in cluster.world.owners) == (1, True)
    assert f"Unload {BUNDLE} from {owner}?" in refused.stderr
    done = cluster.run("bundles", "unload", BUNDLE, stdin="y\n")
    assert (done.exit_code, BUNDLES[1] in cluster.world.owners) == (0, False)
    again = cluster.json("bundles", "unload", BUNDLE)
    assert again["result"] == "nothing"


def test_a_bundle_is_moved_through_the_leader(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[1], cluster.leader.broker_id)
    destination = cluster.follower.broker_id
    assert cluster.json("bundles", "move", BUNDLE, destination, "--yes")["result"] == "moved"
    assert cluster.world.owners[BUNDLES[1]] == destination
    result = cluster.run("bundles", "move", BUNDLE, "gone:1", "--yes")
    assert result.exit_code == 1
    assert "'gone:1' is not a live broker (409)" in result.stderr


def test_a_bundle_is_split_at_the_given_hash(cluster: Cluster) -> None:
    asyncio.run(cluster.leader.serve(BUNDLES[1]))
    done = cluster.json("bundles", "split", BUNDLE, "--at", "0x41000000", "--yes")
    assert done["children"] == [
        "t/ns/0x40000000_0x41000000",
        "t/ns/0x41000000_0x80000000",
    ]
    other = str(BUNDLES[2])
    cluster.world.assign(BUNDLES[2], cluster.leader.broker_id)
    asyncio.run(cluster.leader.dataplane.load(BUNDLES[2], 1))
    for more in (["--yes"], ["--dry-run"]):
        nothing = ["--algorithm", "topic_count_equally_divide", *more]
        refused = cluster.run("bundles", "split", other, *nothing)
        assert refused.exit_code == 1
        assert "a split needs two topics loaded, and it has 0" in refused.stderr
    unknown = cluster.run("bundles", "split", other, "--algorithm", "magic", "--yes")
    assert unknown.exit_code == 1
    assert "range_equally_divide" in unknown.stderr
    assert cluster.run("bundles", "split", other, "--at", "half").exit_code == 2


def test_the_hottest_bundle_is_split_by_its_name(cluster: Cluster) -> None:
    asyncio.run(cluster.leader.serve(BUNDLES[1]))
    done = cluster.json("bundles", "split", "t/ns/HOT", "--yes")
    assert done["children"] == ["t/ns/0x40000000_0x60000000", "t/ns/0x60000000_0x80000000"]


def test_two_neighbours_are_merged(cluster: Cluster) -> None:
    for bundle in BUNDLES[1:3]:
        cluster.world.assign(bundle, cluster.leader.broker_id)
    lower, upper = map(str, BUNDLES[1:3])
    dry = cluster.run("bundles", "merge", lower, "--dry-run")
    owner = cluster.leader.broker_id
    assert dry.stdout == f"would merge {lower} and {BUNDLES[2].range} of {owner}\n"
    done = cluster.json("bundles", "merge", upper, "--with", lower, "--yes")
    assert done["bundle"] == "t/ns/0x40000000_0xc0000000"
    assert len(cluster.world.rings[NAMESPACE].bundles) == 3
    last = cluster.run("bundles", "merge", str(BUNDLES[3]), "--yes")
    assert last.exit_code == 1
    assert "is the last bundle" in last.stderr
    apart = cluster.run("bundles", "merge", str(BUNDLES[0]), "--with", str(BUNDLES[3]), "--yes")
    assert apart.exit_code == 1
    assert "does not begin where" in apart.stderr
    gone = cluster.run("bundles", "merge", lower, "--yes")
    assert gone.exit_code == 1
    assert "is not a bundle" in gone.stderr


@pytest.mark.parametrize("act", [["unload"], ["split"], ["merge"], ["move", "FOLLOWER"]])
def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    cluster: Cluster, act: list[str]
) -> None:
    verb, *destination = act
    destination = [cluster.follower.broker_id for _ in destination]
    asyncio.run(cluster.leader.serve(BUNDLES[1]))
    before = (dict(cluster.world.owners), dict(cluster.world.rings))
    result = cluster.run("bundles", verb, BUNDLE, *destination, "--dry-run")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"would {verb} {BUNDLE}")
    assert cluster.leader.broker_id in result.stdout
    assert (dict(cluster.world.owners), dict(cluster.world.rings)) == before


# What goes wrong.


def test_nobody_there_says_what_to_do() -> None:
    for verb in (["status"], ["brokers", "list"], ["topics", "lookup", "t/ns/x"]):
        result = CliRunner().invoke(main, [*verb, "--url", "http://127.0.0.1:1"])
        assert result.exit_code == 1
        assert (
            "no answer from the daemon at http://127.0.0.1:1: check that it is running"
            in result.stderr
        )
        assert "--url" in result.stderr


def test_a_broker_that_vanished_is_not_taken_for_the_daemon(cluster: Cluster) -> None:
    gone = cluster.world.brokers[cluster.leader.broker_id]
    cluster.world.brokers[cluster.leader.broker_id] = type(gone)(
        "x:1", web_url="http://127.0.0.1:1"
    )
    result = cluster.run("explain", "x")
    assert result.exit_code == 1
    assert "redirected to a broker that does not answer" in result.stderr


def test_an_invalid_name_is_an_error_before_anything_is_asked() -> None:
    for verb in (["topics", "lookup", "a/b"], ["bundles", "list", "x"], ["bundles", "owner", "x"]):
        result = CliRunner().invoke(main, [*verb, "--url", "http://127.0.0.1:1"])
        assert result.exit_code == 1
        assert "no answer" not in result.stderr


def test_a_protected_connection_is_not_left_for_an_open_one() -> None:
    to_open = HttpReply(307, {"Location": "http://b:1/x"}, b"")
    to_protected = HttpReply(307, {"Location": "https://b:1/x"}, b"")
    assert _location("https://a:1/x", to_protected) == "https://b:1/x"
    assert _location("http://a:1/x", to_open) == "http://b:1/x"
    with pytest.raises(HttpError, match="not followed"):
        _location("https://a:1/x", to_open)


def test_a_token_file_opens_what_is_guarded(tmp_path: Path) -> None:
    admission = admitting(f"operator:{TOKEN}", ["operator"])
    rules = ApiRules(CLUSTER, **admission)
    plain, lines = tmp_path / "plain", tmp_path / "lines"
    plain.write_text(f"{TOKEN}\n")
    lines.write_text(f"# operators\noperator:{TOKEN}\nother:x\n")
    with running([free_port(), free_port()], rules) as cluster:
        refused = cluster.run("status")
        assert refused.exit_code == 1
        assert "use --token-file" in refused.stderr
        for file in (plain, lines):
            assert cluster.run("status", "--token-file", str(file)).exit_code == 0
        # Sent on to the leader, and still known there.
        sent_on = cluster.run("status", "--cluster", "--token-file", str(plain))
        assert sent_on.exit_code == 0, sent_on.output
        assert TOKEN not in sent_on.output


def test_an_empty_token_file_is_a_wrong_option(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    result = CliRunner().invoke(main, ["status", "--token-file", str(empty)])
    assert result.exit_code == 2
    assert "does not contain a token" in result.stderr


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_shows_an_example(verb: list[str]) -> None:
    result = CliRunner().invoke(main, [*verb, "--help"])
    assert result.exit_code == 0
    assert f"broker-ctl {' '.join(verb)}" in result.stdout.partition("Example")[2]


async def test_watching_goes_on_until_it_is_interrupted(cluster: Cluster) -> None:
    watching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from broker_ctl.cli.main import main; main()"),
        *("status", "--watch", "--output", "json", "--url", cluster.leader.url),
        stdout=PIPE,
        stderr=PIPE,
    )
    assert watching.stdout is not None
    async with asyncio.timeout(60):
        first = await watching.stdout.readuntil(b"\n}\n")
        second = await watching.stdout.readuntil(b"\n}\n")
        watching.send_signal(signal.SIGINT)
        _, err = await watching.communicate()
    assert json.loads(first)["broker"] == json.loads(second)["broker"] == cluster.leader.broker_id
    assert (watching.returncode, err) == (0, b"")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://127.0.0.1:1,127.0.0.1:2", "one daemon is asked, not a list"),
        ("http://127.0.0.1:99999", "is not 1 to 65535"),
        ("http://::1:1", "is not host:port"),
        ("http://", "no host"),
        ("http://127.0.0.1:1?x=1", "must not have a user, a query"),
        ("http://admin:s3cret@127.0.0.1:1", "must not have a user, a query"),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_asked(
    url: str, complaint: str
) -> None:
    result = CliRunner().invoke(main, ["status", "--url", url])
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())
    assert "s3cret" not in result.stderr


def test_an_address_without_a_scheme_says_what_is_missing() -> None:
    result = CliRunner().invoke(main, ["status", "--url", "127.0.0.1:8080"])
    assert result.exit_code == 2
    assert "'127.0.0.1:8080' has no scheme: http://127.0.0.1:8080, or https://" in result.stderr


def test_tls_to_a_port_that_speaks_none_says_so(cluster: Cluster) -> None:
    url = cluster.follower.url.replace("http:", "https:")
    result = cluster.run("status", "--url", url)
    assert result.exit_code == 1
    assert "it does not speak TLS at this port" in result.stderr


def test_a_refusal_begins_with_its_reason(cluster: Cluster) -> None:
    result = cluster.run("namespaces", "create", "t/ns", "--yes")
    assert result.stderr.startswith("Error: namespace t/ns exists already (409) [PUT /admin/v2/")


def test_an_error_is_json_for_a_program(cluster: Cluster) -> None:
    refused = cluster.run("explain", "nobody", "--output", "json")
    assert refused.exit_code == 1
    error = json.loads(refused.stderr)
    assert error["error"] == "HttpError"
    assert error["reason"].startswith("'nobody' is neither a live broker nor a bundle")
    unknown = cluster.run("bundles", "owner", "t/ns/0x00000000_0x00000001", "--output", "json")
    assert json.loads(unknown.stderr)["error"] == "Error"
    # How a verb is typed is for the operator who types it.
    assert cluster.run("explain", "--output", "json").exit_code == 2


def test_a_daemon_that_is_silent_is_given_up_on_in_time_and_waited_for_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker_ctl.cli.runtime.client._PATIENCE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        arguments = ["brokers", "load-report", "--url", f"http://{address}", "--timeout", "0.5"]
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert f"waiting for {address}, for 0.5 s at most (--timeout)" in result.stderr
    assert "no answer within 0.5 s" in result.stderr


def test_the_decisions_of_the_cluster_are_not_shown_as_none(cluster: Cluster) -> None:
    assert "newest decisions" not in cluster.run("status", "--cluster").stdout
    assert "latest decisions" in cluster.run("status").stdout
