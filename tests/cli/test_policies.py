"""Verbs for policies and configuration, as an operator types them."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from broker_ctl.cli.main import main
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import BUNDLES, CLUSTER
from tests.support.http.web_server import free_port

HERE = ["--cluster", CLUSTER]
SET_SHOP = [
    *("isolation-policies", "set", "shop", "--namespaces", "t/.*", "--namespaces", "u/a{1,3}"),
    *("--primary", "b-1", "--secondary", "b-2", "--min-available", "2", *HERE),
]
SHOP = {
    "namespaces": ["t/.*", "u/a{1,3}"],
    "primary": ["b-1"],
    "secondary": ["b-2"],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "2", "usage_threshold": "100"},
    },
}
INTERVAL = "loadBalancerSheddingIntervalMinutes"
VERBS = [
    *(["isolation-policies"], ["isolation-policies", "list"], ["isolation-policies", "get"]),
    *(["isolation-policies", "set"], ["isolation-policies", "delete"]),
    ["isolation-policies", "brokers"],
    *(["failure-domains"], ["failure-domains", "list"], ["failure-domains", "get"]),
    *(["failure-domains", "set"], ["failure-domains", "delete"]),
    *(["anti-affinity"], ["anti-affinity", "list"], ["anti-affinity", "get"]),
    *(["anti-affinity", "set"], ["anti-affinity", "clear"]),
    *(["configuration"], ["configuration", "list"], ["configuration", "show"]),
    *(["configuration", "set"], ["configuration", "delete"]),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as served:
        yield served


def words_of(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_isolation_policies_come_and_go(cluster: Cluster) -> None:
    assert cluster.json(*SET_SHOP, "--yes")["result"] == "set"
    assert cluster.json("isolation-policies", "list", *HERE) == {"shop": SHOP}
    assert cluster.json("isolation-policies", "get", "shop", *HERE) == SHOP
    row = ["shop", "t/.*", "u/a{1,3}", "b-1", "b-2", "2", "-"]
    for verb in (["list"], ["get", "shop"]):
        result = cluster.run("isolation-policies", *verb, *HERE)
        assert row in words_of(result.stdout)
    brokers = cluster.json("isolation-policies", "brokers", *HERE)
    assert {one["brokerName"] for one in brokers} == set(cluster.world.brokers)
    shown = cluster.run("isolation-policies", "brokers", "b-1:8080", *HERE)
    assert ["b-1:8080", "shop", "yes", "t/.*", "u/a{1,3}"] in words_of(shown.stdout)
    assert cluster.json("isolation-policies", "delete", "shop", "--yes", *HERE) == {
        "result": "deleted",
        "sentence": "deleted isolation policy shop",
    }
    again = cluster.run("isolation-policies", "delete", "shop", "--yes", *HERE)
    assert again.exit_code == 1
    assert "isolation policy shop does not exist (404)" in again.stderr


def test_a_policy_unloads_what_is_in_the_wrong_place(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[0], cluster.leader.broker_id)
    scope = ["--unload-scope", "all_matching", "--yes"]
    assert cluster.run(*SET_SHOP, *scope).exit_code == 0
    assert not cluster.world.owners


def test_a_policy_that_makes_no_sense_says_why(cluster: Cluster) -> None:
    bad = ["--namespaces", "x", "--primary", "(a+)+b", "--yes", *HERE]
    result = cluster.run("isolation-policies", "set", "p", *bad)
    assert result.exit_code == 1
    assert "primary: pattern" in result.stderr
    missing = cluster.run("isolation-policies", "set", "p", "--primary", "x")
    assert missing.exit_code == 2


def test_another_cluster_says_its_name(cluster: Cluster) -> None:
    result = cluster.run("isolation-policies", "list", "--cluster", "else/where")
    assert result.exit_code == 1
    assert f"this is cluster {CLUSTER} (404)" in result.stderr


def test_the_cluster_is_called_as_it_is_by_default() -> None:
    result = CliRunner().invoke(main, ["failure-domains", "list", "--help"])
    assert "default: the daemon's clusterName" in " ".join(result.stdout.split())


def test_failure_domains_come_and_go(cluster: Cluster) -> None:
    brokers = ["--broker", "b-1:1", "--broker", "b-2:1", "--yes", *HERE]
    assert cluster.run("failure-domains", "set", "rack-1", *brokers).exit_code == 0
    rack = {"brokers": ["b-1:1", "b-2:1"]}
    assert cluster.json("failure-domains", "list", *HERE) == {"rack-1": rack}
    assert cluster.json("failure-domains", "get", "rack-1", *HERE) == rack
    listed = cluster.run("failure-domains", "list", *HERE)
    assert ["rack-1", "b-1:1", "b-2:1"] in words_of(listed.stdout)
    assert ["b-2:1"] in words_of(cluster.run("failure-domains", "get", "rack-1", *HERE).stdout)
    taken = cluster.run("failure-domains", "set", "rack-2", *brokers)
    assert taken.exit_code == 1
    assert "b-1:1 is in failure domain rack-1" in taken.stderr
    assert cluster.run("failure-domains", "delete", "rack-1", "--yes", *HERE).exit_code == 0
    assert cluster.json("failure-domains", "list", *HERE) == {}


def test_anti_affinity_groups_come_and_go(cluster: Cluster) -> None:
    assert cluster.run("anti-affinity", "set", "t/ns", "g-1", "--yes").exit_code == 0
    assert cluster.run("anti-affinity", "get", "t/ns").stdout == "g-1\n"
    assert cluster.json("anti-affinity", "get", "t/ns") == {"namespace": "t/ns", "group": "g-1"}
    members = ["anti-affinity", "list", "g-1", "--tenant", "t", *HERE]
    assert cluster.json(*members) == ["t/ns"]
    assert ["t/ns"] in words_of(cluster.run(*members).stdout)
    assert cluster.run("anti-affinity", "clear", "t/ns", "--yes").exit_code == 0
    assert cluster.json("anti-affinity", "get", "t/ns")["group"] is None
    assert cluster.run("anti-affinity", "get", "t/ns").stdout == "t/ns is not in a group\n"
    for wrong in (["get", "t"], ["set", "t/ns", "a b", "--yes"], ["get", "t/gone"]):
        assert cluster.run("anti-affinity", *wrong).exit_code == 1


def test_settings_are_overridden_for_all_brokers(cluster: Cluster) -> None:
    assert cluster.json("configuration", "set", INTERVAL, "0.5", "--yes")["result"] == "set"
    row = cluster.json("configuration", "show", INTERVAL)
    assert (row["key"], row["override"]) == (INTERVAL, "0.5")
    rows = {row["key"]: row for row in cluster.json("configuration", "list")}
    assert rows[INTERVAL]["override"] == "0.5"
    assert rows["dryRun"] == {"key": "dryRun", "override": None, "effective": "false"}
    listed = cluster.run("configuration", "list")
    assert ["dryRun", "-", "false"] in words_of(listed.stdout)
    assert cluster.run("configuration", "delete", INTERVAL, "--yes").exit_code == 0
    assert cluster.json("configuration", "show", INTERVAL)["override"] is None
    refused = cluster.run("configuration", "set", "webServicePort", "1", "--yes")
    assert refused.exit_code == 1
    assert "not dynamic" in refused.stderr
    unknown = cluster.run("configuration", "show", "webServicePort")
    assert unknown.exit_code == 1
    assert "configuration list" in unknown.stderr


def test_a_value_with_a_slash_arrives_whole(cluster: Cluster) -> None:
    key = "loadBalancerSheddingExcludedNamespaces"
    assert cluster.run("configuration", "set", key, "a/b,c/d", "--yes").exit_code == 0
    assert cluster.json("configuration", "show", key)["override"] == "a/b,c/d"


ACTS = [
    SET_SHOP,
    ["isolation-policies", "delete", "kept", *HERE],
    ["failure-domains", "set", "d", "--broker", "b:1", *HERE],
    ["failure-domains", "delete", "kept", *HERE],
    ["anti-affinity", "set", "t/ns", "g"],
    ["anti-affinity", "clear", "t/ns"],
    ["configuration", "set", "dryRun", "true"],
    ["configuration", "delete", INTERVAL],
]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: " ".join(act[:2]))
def test_an_act_asks_first_and_a_dry_run_does_nothing(cluster: Cluster, act: list[str]) -> None:
    def standing() -> object:
        return [
            cluster.json("isolation-policies", "list", *HERE),
            cluster.json("failure-domains", "list", *HERE),
            cluster.json("anti-affinity", "get", "t/ns"),
            [row["override"] for row in cluster.json("configuration", "list")],
        ]

    for kept in (
        ["isolation-policies", "set", "kept", "--namespaces", "x/y", "--primary", "x", *HERE],
        ["failure-domains", "set", "kept", "--broker", "kept:1", *HERE],
        ["anti-affinity", "set", "t/ns", "kept"],
        ["configuration", "set", INTERVAL, "7"],
    ):
        assert cluster.run(*kept, "--yes").exit_code == 0
    before = standing()
    said = cluster.run(*act, "--dry-run")
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("would ")
    refused = cluster.run(*act, stdin="n\n")
    assert refused.exit_code == 1
    assert "?" in refused.stderr
    assert standing() == before
    assert cluster.run(*act, stdin="y\n").exit_code == 0
    assert standing() != before


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_shows_an_example(verb: list[str]) -> None:
    result = CliRunner().invoke(main, [*verb, "--help"])
    assert result.exit_code == 0
    assert f"broker-ctl {' '.join(verb)}" in result.stdout.partition("Example")[2]


def test_the_cluster_need_not_be_named_the_daemon_says_which_it_is(cluster: Cluster) -> None:
    assert cluster.run(*SET_SHOP[: -len(HERE)], "--yes").exit_code == 0
    assert cluster.json("isolation-policies", "get", "shop") == SHOP
    assert cluster.run("failure-domains", "set", "d", "--broker", "a:1", "--yes").exit_code == 0
    assert list(cluster.json("failure-domains", "list")) == ["d"]
    cluster.run("anti-affinity", "set", "t/ns", "group", "--yes")
    assert cluster.json("anti-affinity", "list", "group", "--tenant", "t") == ["t/ns"]
    assert cluster.run("isolation-policies", "delete", "shop", "--dry-run").exit_code == 0


def test_a_policy_that_no_live_broker_matches_is_set_with_a_warning(cluster: Cluster) -> None:
    assert "no live broker matches policy shop" in cluster.run(*SET_SHOP, "--yes").stderr
    here = [*SET_SHOP, "--primary", r"127\.0\.0\.1", "--yes"]
    assert cluster.run(*here).stderr == ""


def test_a_policy_that_leaves_namespaces_without_a_broker_says_so_first(cluster: Cluster) -> None:
    served = str(BUNDLES[0].namespace)
    policy = ["isolation-policies", "set", "p", "--namespaces", served, "--primary", "b-9"]
    warning = f"warning: no live broker may serve {served} then"
    assert warning in cluster.run(*policy, "--dry-run").stderr
    assert cluster.json("isolation-policies", "list") == {}
