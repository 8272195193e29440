"""What each verb asks a daemon for: one row for each way of typing it that asks for something else.

``LEADER`` and ``FOLLOWER`` stand for the brokers of `tests.support.clusters.cli_cluster`; a verb
asks the follower. The namespace ``t/ns`` has four bundles, and one loaded topic is at the leader.
"""

import json
from typing import Any, Final, NamedTuple

NAMED: Final = "operator"
DRY: Final = "dry_run=true"


class Typed(NamedTuple):
    """A verb.

    Attributes:
        words: what is typed; an act goes without ``--yes``, which it is typed with.
        asks: method, path with query, and body, in the order in which they are sent.
        given: verbs that are typed before.
        again: of those, what is typed once more after a dry run, which has ended it by its look.
    """

    words: str
    asks: tuple[str, ...]
    given: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


def request(method: str, target: str, body: Any = None) -> str:
    """A request in one line; the order of a query and of the members of a body says nothing."""
    path, _, query = target.partition("?")
    line = f"{method} {path}" + (f"?{'&'.join(sorted(query.split('&')))}" if query else "")
    return line if body is None else f"{line} {json.dumps(body, sort_keys=True)}"


def get(*targets: str) -> tuple[str, ...]:
    """Requests of a verb that only reads."""
    return tuple(request("GET", target) for target in targets)


def act(method: str, target: str, body: Any = None) -> tuple[str, str]:
    """A dry run and the request itself, as a verb that changes something sends them."""
    dry = f"{target}{'&' if '?' in target else '?'}{DRY}"
    return request(method, dry, body), request(method, target, body)


def by(reason: str = "") -> dict[str, str]:
    """The body with the name of the operator and the reason."""
    return {"by": NAMED, "reason": reason}


def seen(reason: str = "") -> dict[str, str]:
    """The same, for a plan that was shown."""
    return {**by(reason), "digest": DIGEST}


STATUS: Final = "/control/v1/status"
TENANTS: Final = "/admin/v2/tenants"
CLUSTERS: Final = "/admin/v2/clusters"
NAMESPACES: Final = "/admin/v2/namespaces"
HERE: Final = f"{NAMESPACES}/t/ns"
BROKERS: Final = "/admin/v2/brokers"
CONFIGURATION: Final = f"{BROKERS}/configuration"
STATISTICS: Final = "/admin/v2/broker-stats"
OWNERS: Final = "/control/v1/owners?namespace=t%2Fns"
PARTITIONS: Final = "/control/v1/partitions"
REASSIGNMENTS: Final = f"{PARTITIONS}/reassignments"
DRAINED: Final = "/control/v1/drains/FOLLOWER"
PLANS: Final = "/control/v1/plans"
PLAN: Final = "0123456789ab"
DIGEST: Final = f"{PLAN}{'0' * 52}"
ROLLOUT: Final = "/control/v1/rollout"
ROLLED: Final = "rollout run --restart-command true"
POD_OPTIONS: Final = (
    "--kubernetes --statefulset brokers --kubernetes-api http://127.0.0.1:1 "
    "--kubernetes-credentials ."
)
AGAIN: Final = {
    "brokers": ["a:1", "b:1"],
    "max_unavailable": "1",
    "canary": "",
    "accept_overload": False,
}
WHOLE: Final = {
    "brokers": [],
    "max_unavailable": "1",
    "canary": "",
    "version": "",
    "gate_timeout_s": 300,
    "accept_overload": False,
}
LOW: Final = "0x00000000_0x40000000"
NEXT: Final = "0x40000000_0x80000000"
HOT: Final = "0x80000000_0xc0000000"
TOPIC: Final = "persistent/t/ns/x"

OWNED: Final = (f"bundles move t/ns/{LOW} LEADER",)
EAST: Final = ("clusters create east --service-url http://e:1",)
RACK: Final = ("failure-domains set rack --broker a:1",)
POLICY: Final = ("isolation-policies set p --namespaces t/.* --primary x",)
PARTITIONED: Final = ("topics create-partitioned-topic t/ns/x --partitions 1",)
ORDERS: Final = ("partitions create orders --replicas 0:1,2",)
PLANNED: Final = (*ORDERS, "partitions reassign plan orders --brokers 3,4 --out moves.json --force")
STARTED: Final = (*PLANNED, "partitions reassign start --from moves.json")
# Looking at it ends it; its leader stays.
MOVED: Final = (*STARTED, "partitions reassign status")
ORDERS_0: Final = [{"topic": "orders", "partition": 0}]
TARGETS: Final = {"partitions": [{**ORDERS_0[0], "replicas": [3, 4]}]}
RATE: Final = {"throttle_bytes_per_s": 2048}

SUPPORT: Final = get(
    "/metrics",
    STATUS,
    "/control/v1/stacks",
    f"{STATISTICS}/load-report",
    f"{CONFIGURATION}/runtime",
    "/control/v1/cluster",
    "/control/v1/history?limit=500",
    "/control/v1/plan?verbose=true",
    PLANS,
    "/control/v1/drains",
    "/control/v1/pause",
    ROLLOUT,
    f"{PARTITIONS}/controller",
    f"{PARTITIONS}/transitions?limit=500",
    REASSIGNMENTS,
)

READS: Final = (
    Typed("anti-affinity get t/ns", get(f"{HERE}/antiAffinity")),
    Typed(
        "anti-affinity list g --tenant t",
        get(STATUS, f"{NAMESPACES}/c1/antiAffinity/g?tenant=t"),
    ),
    Typed(
        "anti-affinity list g --tenant t --cluster c1",
        get(f"{NAMESPACES}/c1/antiAffinity/g?tenant=t"),
    ),
    Typed(
        "brokers list",
        get(
            BROKERS,
            f"{BROKERS}/leaderBroker",
            "/control/v1/cluster",
            f"{PARTITIONS}/controller",
        ),
    ),
    Typed("brokers load-report", get(f"{STATISTICS}/load-report")),
    Typed("brokers topics", get(f"{STATISTICS}/topics?limit=10000")),
    Typed(
        "brokers topics --namespace t/ns --limit 7",
        get(f"{STATISTICS}/topics?limit=7&namespace=t%2Fns"),
    ),
    Typed("bundles list t/ns", get(OWNERS, "/control/v1/cluster")),
    Typed("bundles list t/ns --sort load", get(OWNERS, "/control/v1/cluster")),
    Typed(f"bundles owner t/ns/{LOW}", get(OWNERS)),
    Typed("clusters get c1", get(f"{CLUSTERS}/c1")),
    Typed("clusters list", get(CLUSTERS)),
    Typed(
        "configuration list",
        get(CONFIGURATION, f"{CONFIGURATION}/values", f"{CONFIGURATION}/runtime"),
    ),
    Typed(
        "configuration show dryRun",
        get(CONFIGURATION, f"{CONFIGURATION}/values", f"{CONFIGURATION}/runtime"),
    ),
    Typed("advise size", get("/control/v1/advice/size")),
    Typed("advise size --growth 30", get("/control/v1/advice/size?growth_percent=30")),
    Typed("controller show", get(f"{PARTITIONS}/controller")),
    Typed("drain", get("/control/v1/drains")),
    Typed("explain LEADER", get("/control/v1/explain?subject=LEADER")),
    Typed("failure-domains get rack", get(STATUS, f"{CLUSTERS}/c1/failureDomains/rack"), RACK),
    Typed("failure-domains get rack --cluster c1", get(f"{CLUSTERS}/c1/failureDomains/rack"), RACK),
    Typed("failure-domains list", get(STATUS, f"{CLUSTERS}/c1/failureDomains")),
    Typed("failure-domains list --cluster c1", get(f"{CLUSTERS}/c1/failureDomains")),
    Typed("history", get("/control/v1/history?limit=50")),
    Typed(
        f"history --kind transfer --result done --broker LEADER --bundle t/ns/{LOW}"
        " --since 2030-01-31T03:00Z --until 2030-01-31T03:20Z --limit 20",
        get(
            f"/control/v1/history?kind=transfer&result=done&broker=LEADER&bundle=t%2Fns%2F{LOW}"
            "&limit=20&since_ms=1896058800000&until_ms=1896060000000"
        ),
    ),
    Typed(
        "isolation-policies brokers",
        get(STATUS, f"{CLUSTERS}/c1/namespaceIsolationPolicies/brokers"),
    ),
    Typed(
        "isolation-policies brokers LEADER --cluster c1",
        get(f"{CLUSTERS}/c1/namespaceIsolationPolicies/brokers/LEADER"),
    ),
    Typed(
        "isolation-policies get p",
        get(STATUS, f"{CLUSTERS}/c1/namespaceIsolationPolicies/p"),
        POLICY,
    ),
    Typed(
        "isolation-policies get p --cluster c1",
        get(f"{CLUSTERS}/c1/namespaceIsolationPolicies/p"),
        POLICY,
    ),
    Typed("isolation-policies list", get(STATUS, f"{CLUSTERS}/c1/namespaceIsolationPolicies")),
    Typed("isolation-policies list --cluster c1", get(f"{CLUSTERS}/c1/namespaceIsolationPolicies")),
    Typed("leader show", get(f"{BROKERS}/leaderBroker")),
    Typed("namespaces get-clusters t/ns", get(f"{HERE}/replication")),
    Typed("namespaces list", get(TENANTS, f"{NAMESPACES}/t")),
    Typed("namespaces list t", get(f"{NAMESPACES}/t")),
    Typed("partitions describe orders", get(f"{PARTITIONS}/topics/orders"), ORDERS),
    Typed(
        "partitions explain orders-0",
        get(f"{PARTITIONS}/explain?topic=orders&partition=0"),
        ORDERS,
    ),
    Typed("partitions history", get(f"{PARTITIONS}/transitions?limit=50")),
    Typed(
        "partitions history orders --partition 0 --limit 7",
        get(f"{PARTITIONS}/transitions?topic=orders&partition=0&limit=7"),
    ),
    Typed(
        "partitions history orders-0",
        get(
            f"{PARTITIONS}/transitions?topic=orders-0&limit=50",
            f"{PARTITIONS}/transitions?topic=orders&partition=0&limit=50",
        ),
    ),
    Typed("partitions list", get(f"{PARTITIONS}/topics")),
    Typed(
        "partitions list --offline --under-replicated --under-min-isr --rack-violations",
        get(f"{PARTITIONS}/topics"),
    ),
    Typed("partitions reassign status", get(REASSIGNMENTS)),
    Typed("partitions reassign status --wait", get(REASSIGNMENTS, REASSIGNMENTS)),
    Typed(
        "partitions reassign plan orders --brokers 3,4 --out moves.json --force",
        (request("POST", f"{PARTITIONS}/plan", {"topics": ["orders"], "brokers": [3, 4]}),),
        ORDERS,
    ),
    Typed("plan", get("/control/v1/plan")),
    Typed("plan --verbose", get("/control/v1/plan?verbose=true")),
    Typed("plan --heal-policies", get("/control/v1/plan?heal_policies=true")),
    Typed("plan --from placement.json", (request("POST", PLANS, "placement.json"),)),
    Typed("plan --progress", get(PLANS)),
    Typed("plan --proposals", get("/control/v1/proposals")),
    Typed(f"plan --show {PLAN}", get(f"{PLANS}/{PLAN}")),
    Typed(
        "rollout plan",
        get("/control/v1/rollout/plan?max_unavailable=1", f"{CONFIGURATION}/runtime"),
    ),
    Typed(
        "rollout plan --restart-command true",
        get("/control/v1/rollout/plan?max_unavailable=1", f"{CONFIGURATION}/runtime"),
    ),
    Typed(
        "rollout plan --brokers LEADER --canary FOLLOWER --max-unavailable zone --accept-overload",
        get(
            "/control/v1/rollout/plan?brokers=LEADER&canary=FOLLOWER&max_unavailable=zone",
            f"{CONFIGURATION}/runtime",
        ),
    ),
    Typed("rollout status", get(ROLLOUT), (ROLLED,)),
    Typed("rollout status --wait", get(ROLLOUT), (ROLLED,)),
    Typed("status", get(STATUS)),
    Typed("status --cluster", get("/control/v1/cluster")),
    *(
        Typed(f"support-bundle{options} --out fault.tar.gz --force", SUPPORT)
        for options in ("", " --config broker.conf --unit none --log broker.conf")
    ),
    Typed("tenants get t", get(f"{TENANTS}/t")),
    Typed("tenants list", get(TENANTS)),
    Typed("topics bundle-range t/ns/x", get(f"/lookup/v2/topic/{TOPIC}/bundle")),
    Typed("topics get-partitioned-topic-metadata t/ns/x", get(f"/admin/v2/{TOPIC}/partitions")),
    Typed(
        "topics list-partitioned-topics t/ns",
        get("/admin/v2/persistent/t/ns/partitioned", "/admin/v2/non-persistent/t/ns/partitioned"),
    ),
    Typed(
        "topics lookup t/ns/x",
        get(f"/lookup/v2/topic/{TOPIC}", f"/lookup/v2/topic/{TOPIC}/bundle"),
    ),
    Typed(
        "topics partitioned-lookup t/ns/x",
        get(
            f"/admin/v2/{TOPIC}/partitions",
            f"/lookup/v2/topic/{TOPIC}-partition-0",
            f"/lookup/v2/topic/{TOPIC}-partition-0/bundle",
        ),
        PARTITIONED,
    ),
)

BALANCING: Final = (
    Typed(
        f"bundles merge t/ns/{LOW}",
        (*get(OWNERS), *act("PUT", f"{HERE}/{LOW}/merge?with={NEXT}&by={NAMED}")),
    ),
    Typed(
        f"bundles merge t/ns/{NEXT} --with t/ns/{LOW}",
        (*get(OWNERS), *act("PUT", f"{HERE}/{NEXT}/merge?with={LOW}&by={NAMED}")),
    ),
    Typed(
        f"bundles move t/ns/{LOW} FOLLOWER",
        act("PUT", f"{HERE}/{LOW}/unload?destinationBroker=FOLLOWER&by={NAMED}"),
    ),
    Typed(
        f"bundles split t/ns/{LOW} --algorithm range_equally_divide",
        (
            request(
                "PUT",
                f"{HERE}/{LOW}/split?unload=false&by={NAMED}"
                f"&splitAlgorithmName=range_equally_divide&{DRY}",
            ),
            *get(OWNERS),
            request(
                "PUT",
                f"{HERE}/{LOW}/split?unload=false&by={NAMED}"
                "&splitAlgorithmName=range_equally_divide",
            ),
            *get(OWNERS),
        ),
    ),
    Typed(
        f"bundles split t/ns/{LOW} --at 0x10000000 --unload",
        (
            request(
                "PUT",
                f"{HERE}/{LOW}/split?unload=true&by={NAMED}"
                f"&splitAlgorithmName=specified_positions_divide&{DRY}",
                [0x10000000],
            ),
            *get(OWNERS),
            request(
                "PUT",
                f"{HERE}/{LOW}/split?unload=true&by={NAMED}"
                "&splitAlgorithmName=specified_positions_divide",
                [0x10000000],
            ),
            *get(OWNERS),
        ),
    ),
    Typed(
        "bundles split t/ns/HOT",
        (
            request("PUT", f"{HERE}/HOT/split?unload=false&by={NAMED}&{DRY}"),
            request("PUT", f"{HERE}/{HOT}/split?unload=false&by={NAMED}&{DRY}"),
            *get(OWNERS),
            request("PUT", f"{HERE}/{HOT}/split?unload=false&by={NAMED}"),
            *get(OWNERS),
        ),
    ),
    Typed(f"bundles unload t/ns/{LOW}", act("PUT", f"{HERE}/{LOW}/unload"), OWNED),
    Typed(
        "drain FOLLOWER --force --reason update",
        act("PUT", f"{DRAINED}?force=true", by("update")),
    ),
    Typed(
        "drain FOLLOWER --wait",
        (*act("PUT", DRAINED, by()), *get("/control/v1/drains", "/control/v1/drains")),
    ),
    Typed(
        "drain FOLLOWER --at 2100-01-31T02:00Z --until 2100-01-31T04:00Z",
        act("PUT", DRAINED, by() | {"begins_ms": 4_105_044_000_000, "ends_ms": 4_105_051_200_000}),
    ),
    Typed(
        "drain --self --until-restart",
        (*get("/control/v1/status"), *act("PUT", DRAINED, by() | {"until_restart": True})),
    ),
    Typed(
        "pause --reason network",
        (*get("/control/v1/pause"), *act("PUT", "/control/v1/pause", by("network"))),
    ),
    Typed(
        "plan --approve --wait",
        (*get("/control/v1/plan"), *act("PUT", f"{PLANS}/{PLAN}", seen()), *get(PLANS, PLANS)),
    ),
    Typed(
        "plan --approve --from placement.json",
        (request("POST", PLANS, "placement.json"), *act("PUT", f"{PLANS}/{PLAN}", seen())),
    ),
    Typed(
        f"plan --approve {PLAN} --reason sale",
        (*get(f"{PLANS}/{PLAN}"), *act("PUT", f"{PLANS}/{PLAN}", seen("sale"))),
    ),
    Typed(
        "plan --propose --heal-policies",
        (*get("/control/v1/plan?heal_policies=true"), *act("POST", f"{PLANS}/{PLAN}", by())),
    ),
    Typed(
        f"plan --propose {PLAN} --reason sale",
        (*get(f"{PLANS}/{PLAN}"), *act("POST", f"{PLANS}/{PLAN}", by("sale"))),
    ),
    Typed(
        "plan --stop",
        (*get(PLANS), *act("DELETE", f"{PLANS}/{PLAN}", by())),
        ("plan --approve",),
        ("plan --approve",),
    ),
    Typed(f"plan --stop {PLAN}", act("DELETE", f"{PLANS}/{PLAN}", by())),
    Typed(f"plan --stop {PLAN} --reason sold", act("DELETE", f"{PLANS}/{PLAN}", by("sold"))),
    Typed("resume", act("DELETE", "/control/v1/pause"), ("pause",)),
    Typed("rollout abort --reason late", act("POST", f"{ROLLOUT}/abort", by("late")), (ROLLED,)),
    Typed("rollout pause --reason peak", act("POST", f"{ROLLOUT}/pause", by("peak")), (ROLLED,)),
    Typed(
        "rollout resume --systemd broker-ctl --reason on",
        (*act("POST", f"{ROLLOUT}/resume", by("on")), *get(ROLLOUT)),
        (ROLLED,),
    ),
    Typed(
        "rollout resume --restart-command true --restart-timeout 9",
        (*act("POST", f"{ROLLOUT}/resume", by()), *get(ROLLOUT)),
        (ROLLED,),
    ),
    Typed(
        "rollout rollback --restart-command true --restart-timeout 9 --reason back",
        (
            *get(ROLLOUT),
            *act("PUT", ROLLOUT, AGAIN | by("back")),
            *get(ROLLOUT),
        ),
        (ROLLED,),
    ),
    Typed(
        "rollout rollback --systemd broker-ctl --accept-overload",
        (
            *get(ROLLOUT),
            *act("PUT", ROLLOUT, AGAIN | {"accept_overload": True} | by()),
            *get(ROLLOUT),
        ),
        (ROLLED,),
    ),
    *(
        Typed(f"{verb} {POD_OPTIONS}", asks, given)
        for verb, asks, given in (
            (
                "rollout rollback",
                (*get(ROLLOUT), *act("PUT", ROLLOUT, AGAIN | by()), *get(ROLLOUT)),
                (ROLLED,),
            ),
            (
                "rollout resume",
                (*act("POST", f"{ROLLOUT}/resume", by()), *get(ROLLOUT)),
                (ROLLED,),
            ),
            ("rollout run", (*act("PUT", ROLLOUT, WHOLE | by()), *get(ROLLOUT)), ()),
        )
    ),
    Typed(ROLLED, (*act("PUT", ROLLOUT, WHOLE | by()), *get(ROLLOUT))),
    Typed(
        "rollout run --systemd broker-ctl --restart-timeout 9 --brokers b:1 --canary a:1"
        " --max-unavailable zone --wanted-version 2 --gate-timeout 60 --accept-overload"
        " --reason update",
        (
            *act(
                "PUT",
                ROLLOUT,
                {
                    "brokers": ["b:1"],
                    "max_unavailable": "zone",
                    "canary": "a:1",
                    "version": "2",
                    "gate_timeout_s": 60,
                    "accept_overload": True,
                    **by("update"),
                },
            ),
            *get(ROLLOUT),
        ),
    ),
    Typed("undrain FOLLOWER", act("DELETE", DRAINED), ("drain FOLLOWER",)),
)

CLUSTER: Final = (
    Typed(
        "anti-affinity clear t/ns",
        act("DELETE", f"{HERE}/antiAffinity"),
        ("anti-affinity set t/ns g",),
    ),
    Typed("anti-affinity set t/ns g", act("POST", f"{HERE}/antiAffinity", "g")),
    Typed(
        "clusters create east --service-url http://e:1 --service-url-tls https://e:2"
        " --broker-url pulsar://e:3 --broker-url-tls pulsar+ssl://e:4",
        act(
            "PUT",
            f"{CLUSTERS}/east",
            {
                "serviceUrl": "http://e:1",
                "serviceUrlTls": "https://e:2",
                "brokerServiceUrl": "pulsar://e:3",
                "brokerServiceUrlTls": "pulsar+ssl://e:4",
            },
        ),
    ),
    Typed("clusters delete east", act("DELETE", f"{CLUSTERS}/east"), EAST),
    Typed("clusters set-peers c1 --peer east", act("POST", f"{CLUSTERS}/c1/peers", ["east"]), EAST),
    Typed(
        "clusters update east --service-url-tls https://f:2"
        " --broker-url pulsar://f:3 --broker-url-tls pulsar+ssl://f:4",
        (
            *get(f"{CLUSTERS}/east"),
            *act(
                "POST",
                f"{CLUSTERS}/east",
                {
                    "serviceUrl": "http://e:1",
                    "serviceUrlTls": "https://f:2",
                    "brokerServiceUrl": "pulsar://f:3",
                    "brokerServiceUrlTls": "pulsar+ssl://f:4",
                },
            ),
        ),
        EAST,
    ),
    Typed(
        "clusters update east --service-url http://f:1",
        (
            *get(f"{CLUSTERS}/east"),
            *act("POST", f"{CLUSTERS}/east", {"serviceUrl": "http://f:1"}),
        ),
        EAST,
    ),
    Typed(
        "configuration delete dryRun",
        act("DELETE", f"{CONFIGURATION}/dryRun"),
        ("configuration set dryRun true",),
    ),
    Typed(
        "configuration set loadBalancerSheddingExcludedNamespaces a/b,c/d",
        act("POST", f"{CONFIGURATION}/loadBalancerSheddingExcludedNamespaces/a%2Fb%2Cc%2Fd"),
    ),
    Typed(
        "failure-domains delete rack --cluster c1",
        act("DELETE", f"{CLUSTERS}/c1/failureDomains/rack"),
        RACK,
    ),
    Typed(
        "failure-domains set rack --broker a:1 --broker b:1 --cluster c1",
        act("POST", f"{CLUSTERS}/c1/failureDomains/rack", {"brokers": ["a:1", "b:1"]}),
    ),
    Typed(
        "isolation-policies delete p --cluster c1",
        act("DELETE", f"{CLUSTERS}/c1/namespaceIsolationPolicies/p"),
        POLICY,
    ),
    Typed(
        "isolation-policies set p --namespaces t/.* --primary b-1 --secondary b-2"
        " --min-available 2 --usage-threshold 90 --unload-scope none --cluster c1",
        act(
            "POST",
            f"{CLUSTERS}/c1/namespaceIsolationPolicies/p",
            {
                "namespaces": ["t/.*"],
                "primary": ["b-1"],
                "secondary": ["b-2"],
                "auto_failover_policy": {
                    "policy_type": "min_available",
                    "parameters": {"min_limit": "2", "usage_threshold": "90"},
                },
                "unload_scope": "none",
            },
        ),
    ),
    Typed("namespaces create t/new", act("PUT", f"{NAMESPACES}/t/new")),
    Typed(
        "namespaces create t/new --bundles 2",
        act("PUT", f"{NAMESPACES}/t/new", {"bundles": {"numBundles": 2}}),
    ),
    Typed(
        "namespaces delete t/new",
        act("DELETE", f"{NAMESPACES}/t/new"),
        ("namespaces create t/new",),
    ),
    Typed("namespaces set-clusters t/ns --cluster c1", act("POST", f"{HERE}/replication", ["c1"])),
    Typed("namespaces unload t/ns", act("PUT", f"{HERE}/unload")),
    Typed(
        "tenants create shop",
        (
            *get(CLUSTERS),
            *act("PUT", f"{TENANTS}/shop", {"adminRoles": [], "allowedClusters": ["c1"]}),
        ),
    ),
    Typed(
        "tenants create shop --allowed-cluster c1 --admin-role clerk",
        act("PUT", f"{TENANTS}/shop", {"adminRoles": ["clerk"], "allowedClusters": ["c1"]}),
    ),
    Typed("tenants delete shop", act("DELETE", f"{TENANTS}/shop"), ("tenants create shop",)),
    Typed(
        "tenants update t --allowed-cluster c1 --allowed-cluster east --admin-role clerk",
        (
            *get(f"{TENANTS}/t"),
            *act(
                "POST",
                f"{TENANTS}/t",
                {"adminRoles": ["clerk"], "allowedClusters": ["c1", "east"]},
            ),
        ),
        EAST,
    ),
    Typed(
        "topics create-partitioned-topic t/ns/x --partitions 4",
        act("PUT", f"/admin/v2/{TOPIC}/partitions", 4),
    ),
    Typed(
        "topics delete-partitioned-topic t/ns/x",
        (
            *get(f"/admin/v2/{TOPIC}/partitions"),
            *act("DELETE", f"/admin/v2/{TOPIC}/partitions"),
        ),
        PARTITIONED,
    ),
    Typed(
        "topics unload 't/ns/topic 0'",
        (
            *get("/lookup/v2/topic/persistent/t/ns/topic%200/bundle", OWNERS),
            *act("PUT", "/admin/v2/persistent/t/ns/topic%200/unload"),
        ),
    ),
    Typed(
        "topics update-partitioned-topic t/ns/x --partitions 4",
        (
            *get(f"/admin/v2/{TOPIC}/partitions"),
            *act("POST", f"/admin/v2/{TOPIC}/partitions", 4),
        ),
        PARTITIONED,
    ),
)

REPLICATED: Final = (
    # What was shown is written: the new id is sent along.
    Typed(
        "partitions adopt old",
        (
            request("PUT", f"{PARTITIONS}/topics/old/topic-id?{DRY}", {}),
            request("PUT", f"{PARTITIONS}/topics/old/topic-id", {"topic_id": "f" * 32}),
        ),
    ),
    Typed(
        f"partitions adopt old --topic-id {'5f' * 16}",
        act("PUT", f"{PARTITIONS}/topics/old/topic-id", {"topic_id": "5f" * 16}),
    ),
    Typed(
        "elect preferred",
        act("POST", f"{PARTITIONS}/elections", {"kind": "preferred", "partitions": []}),
        MOVED,
    ),
    Typed(
        "elect unclean orders-0",
        act("POST", f"{PARTITIONS}/elections", {"kind": "unclean", "partitions": ORDERS_0}),
        MOVED,
    ),
    Typed(
        "partitions alter orders --min-isr 2 --unclean",
        act("POST", f"{PARTITIONS}/topics/orders/rules", {"min_isr": 2, "unclean": True}),
        ORDERS,
    ),
    Typed(
        "partitions alter orders --no-unclean --reset min-isr",
        act("POST", f"{PARTITIONS}/topics/orders/rules", {"unclean": False, "min_isr": None}),
        ORDERS,
    ),
    Typed(
        "partitions create orders --replicas 0:1,2 --replicas 1:2,3 --no-unclean",
        act(
            "PUT",
            f"{PARTITIONS}/topics/orders",
            {"min_isr": 0, "unclean": False, "replicas": {"0": [1, 2], "1": [2, 3]}},
        ),
    ),
    Typed(
        "partitions create orders --partitions 2 --replication-factor 2 --min-isr 2 --unclean",
        (
            request(
                "PUT",
                f"{PARTITIONS}/topics/orders?{DRY}",
                {"min_isr": 2, "unclean": True, "partitions": 2, "replication_factor": 2},
            ),
            request(
                "PUT",
                f"{PARTITIONS}/topics/orders",
                {"min_isr": 2, "unclean": True, "replicas": {"0": [1, 2], "1": [2, 3]}},
            ),
        ),
    ),
    Typed("partitions delete orders", act("DELETE", f"{PARTITIONS}/topics/orders"), ORDERS),
    Typed(
        "partitions grow orders --partitions 2 --replicas 1:3,4",
        act("POST", f"{PARTITIONS}/topics/orders", {"partitions": 2, "replicas": {"1": [3, 4]}}),
        ORDERS,
    ),
    Typed(
        "partitions reassign cancel --all",
        act("DELETE", REASSIGNMENTS, {"partitions": []}),
        STARTED,
    ),
    Typed(
        "partitions reassign cancel orders-0",
        act("DELETE", REASSIGNMENTS, {"partitions": ORDERS_0}),
        STARTED,
    ),
    Typed(
        "partitions reassign start --from moves.json", act("PUT", REASSIGNMENTS, TARGETS), PLANNED
    ),
    Typed(
        "partitions reassign start --from moves.json --throttle 2KiB",
        act("PUT", REASSIGNMENTS, {**TARGETS, **RATE}),
        PLANNED,
    ),
    Typed(
        "partitions reassign throttle 2KiB", act("POST", f"{REASSIGNMENTS}/throttle", RATE), STARTED
    ),
    Typed(
        "partitions reassign throttle --remove",
        act("POST", f"{REASSIGNMENTS}/throttle", dict.fromkeys(RATE)),
        STARTED,
    ),
    Typed(
        "partitions reassign start --from moves.json --wait",
        (
            *act("PUT", REASSIGNMENTS, TARGETS),
            *get(REASSIGNMENTS, REASSIGNMENTS, f"{PARTITIONS}/topics/orders"),
        ),
        PLANNED,
    ),
)

ACTS: Final = (*BALANCING, *CLUSTER, *REPLICATED)
