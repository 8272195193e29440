"""``broker-ctl partitions``, ``elect`` and ``controller`` as an operator types them."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_ctl.cli import partition_arguments, reassign
from broker_ctl.cli.main import main
from broker_ctl.cli.reassign import ReassignPace
from broker_ctl.core.partitions.values import MIN_ISR, UNCLEAN, TopicPartition, TopicRules
from broker_ctl.errors import InvalidReplicas
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.controller_admin import NAMELESS, NEW_ID, MemoryControllerAdmin
from tests.support.http.web_server import free_port

CREATE = ["partitions", "create", "orders"]
SPREAD = [*CREATE, "--partitions", "3", "--replication-factor", "2"]
GIVEN = [*CREATE, "--replicas", "0:1,2", "--replicas", "1:2,3"]
REASSIGN = ["partitions", "reassign"]
VERBS = [
    *("partitions", "partitions create", "partitions list", "partitions describe"),
    *(
        "partitions adopt",
        "partitions alter",
        "partitions grow",
        "partitions delete",
        "partitions history",
        "partitions explain",
    ),
    *("partitions reassign", "partitions reassign plan", "partitions reassign start"),
    *("partitions reassign status", "partitions reassign cancel"),
    "partitions reassign throttle",
    *("elect", "elect preferred", "elect unclean", "controller", "controller show"),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Verbs ask the broker that does not control."""
    with running([free_port(), free_port()]) as served:
        yield served


@pytest.fixture
def admin(cluster: Cluster) -> MemoryControllerAdmin:
    return cluster.leader.partition_admin


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# Topics.


def test_a_topic_is_shown_before_it_is_made_and_made_as_shown(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    dry = cluster.run(*SPREAD, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert ["orders-2", "3,4"] in words(dry.stdout)
    assert dry.stdout.endswith("would create orders with 3 partitions\n")
    refused = cluster.run(*SPREAD, stdin="n\n")
    assert (refused.exit_code, "Create orders with 3 partitions?" in refused.stderr) == (1, True)
    assert admin.written == []
    made = cluster.run(*SPREAD, "--min-isr", "2", "--unclean", "--yes")
    assert made.exit_code == 0, made.output
    assert made.stdout.endswith("created orders with 3 partitions\n")
    lists = {0: (1, 2), 1: (2, 3), 2: (3, 4)}
    assert admin.written == [("create", "orders", lists, TopicRules(True, 2))]  # noqa: FBT003


@pytest.mark.parametrize(
    ("options", "is_allowed"), [([], None), (["--unclean"], True), (["--no-unclean"], False)]
)
def test_a_topic_allows_or_forbids_unclean_elections_or_leaves_it_to_the_cluster(
    cluster: Cluster, admin: MemoryControllerAdmin, options: list[str], is_allowed: bool | None
) -> None:
    cluster.json(*GIVEN, *options, "--yes")
    assert admin.written[0][3] == TopicRules(is_allowed)


def test_a_program_reads_what_would_be_made(cluster: Cluster, admin: MemoryControllerAdmin) -> None:
    shown = cluster.json(*GIVEN, "--dry-run")
    assert (shown["result"], shown["partitions"][1]) == (
        "dry_run",
        {"topic": "orders", "partition": 1, "replicas": [2, 3]},
    )
    assert admin.written == []
    assert cluster.json(*GIVEN, "--yes")["result"] == "created"
    assert admin.written == [("create", "orders", {0: (1, 2), 1: (2, 3)}, TopicRules())]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--replicas", "0:1,9"], "names 9: no such broker lives, only 1, 2, 3, 4"),
        (["--replicas", "0:1,1"], "names 1 more than once"),
        (["--partitions", "1", "--replication-factor", "5"], "brokers are (1, 2, 3, 4)"),
        (["--replicas", "0:1,2", "--min-isr", "3"], "has 2 replicas, fewer than its min ISR of 3"),
    ],
)
@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_replicas_that_cannot_be_are_refused_before_anybody_is_asked(
    cluster: Cluster, admin: MemoryControllerAdmin, options: list[str], said: str, how: str
) -> None:
    result = cluster.run(*CREATE, *options, how)
    assert (result.exit_code, said in result.stderr) == (1, True), result.output
    assert admin.written == []


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--partitions", "3"],
        ["--replication-factor", "3"],
        ["--replicas", "0:1", "--partitions", "3", "--replication-factor", "1"],
        ["--replicas", "0:1", "--replicas", "0:2"],
        ["--replicas", "0"],
        ["--replicas", "-1:2"],
        ["--replicas", "0:one"],
        ["--replicas", "0:1,-2"],
        ["--partitions", "0", "--replication-factor", "1"],
        ["--partitions", "10001", "--replication-factor", "1"],
    ],
)
def test_options_that_make_no_sense_are_refused(options: list[str]) -> None:
    nowhere = ["--url", "http://127.0.0.1:1"]
    assert CliRunner().invoke(main, [*CREATE, *options, *nowhere]).exit_code == 2


def test_topics_are_listed_and_described_with_what_is_not_well(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    cluster.json(*GIVEN, "--yes")
    admin.held["orders"].leaders[1] = -1
    listed = cluster.run("partitions", "list")
    assert ["orders", "2", "1", "0", "0", "0", "0", "no"] in words(listed.stdout)
    assert cluster.json("partitions", "list")[0]["offline"] == 1
    shown = cluster.run("partitions", "describe", "orders")
    assert ["orders-0", "1", "1,2", "1,2", "0", "-"] in words(shown.stdout)
    assert ["orders-1", "none", "2,3", "2,3", "0", "offline"] in words(shown.stdout)
    assert cluster.json("partitions", "describe", "orders")["partitions"][1]["leader"] == -1
    asyncio.run(admin.reassign({TopicPartition("orders", 0): (2, 3)}, is_dry_run=False))
    admin.recovering = True
    moving = cluster.run("partitions", "describe", "orders").stdout
    assert "moving: adding 3, removing 1; elected out of sync: records may be lost" in moving
    missing = cluster.run("partitions", "describe", "users")
    assert (missing.exit_code, "there is no topic users" in missing.stderr) == (1, True)
    assert cluster.run("partitions", "describe", "a/b").exit_code == 1


@pytest.mark.parametrize(
    ("filters", "listed"),
    [
        ([], ["audit", "orders"]),
        (["--offline"], ["audit"]),
        (["--under-min-isr"], []),
        (["--under-replicated"], []),
        (["--offline", "--under-min-isr"], ["audit"]),
    ],
)
def test_what_is_not_well_can_be_listed_alone(
    cluster: Cluster, admin: MemoryControllerAdmin, filters: list[str], listed: list[str]
) -> None:
    cluster.json(*GIVEN, "--yes")
    cluster.json("partitions", "create", "audit", "--replicas", "0:1", "--yes")
    admin.held["audit"].leaders[0] = -1
    rows = cluster.json("partitions", "list", *filters)
    assert [row["topic"] for row in rows] == listed


def test_what_commits_nothing_is_shown(cluster: Cluster, admin: MemoryControllerAdmin) -> None:
    cluster.json(*GIVEN, "--min-isr", "2", "--yes")
    admin.few_in_sync = True
    rows = cluster.json("partitions", "list", "--under-min-isr")
    assert [row["under_min_isr"] for row in rows] == [2]
    assert ["orders", "2", "0", "0", "2", "0", "0", "no"] in words(
        cluster.run("partitions", "list").stdout
    )
    shown = cluster.run("partitions", "describe", "orders").stdout
    assert "under-replicated; under min ISR (1 of 2): nothing is committed" in shown


def test_what_is_on_too_few_racks_is_shown(cluster: Cluster, admin: MemoryControllerAdmin) -> None:
    cluster.json(*GIVEN, "--yes")
    assert cluster.json("partitions", "list", "--rack-violations") == []
    admin.racks = {1: "a", 2: "a"}
    rows = cluster.json("partitions", "list", "--rack-violations")
    assert [row["rack_violations"] for row in rows] == [2]
    assert "on too few racks (a, a" in cluster.run("partitions", "describe", "orders").stdout


def test_what_a_topic_asks_for_is_shown_before_it_is_changed(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    cluster.json(*GIVEN, "--yes")
    admin.few_in_sync = True
    alter = ["partitions", "alter", "orders", "--min-isr", "2", "--no-unclean"]
    dry = cluster.run(*alter, "--dry-run")
    assert dry.stdout == (
        "would change orders: min ISR 0 -> 2, unclean elections forbidden -> forbidden;"
        " under min ISR: 2 partitions\n"
    )
    assert len(admin.written) == 1
    assert cluster.json(*alter, "--yes")["after"] == {"min_isr": 2, "unclean": False}
    assert admin.written[1] == ("alter", "orders", {MIN_ISR: "2", UNCLEAN: "false"})
    reset = ["--reset", "min-isr", "--reset", "unclean"]
    cluster.json("partitions", "alter", "orders", *reset, "--yes")
    assert admin.written[2] == ("alter", "orders", {MIN_ISR: None, UNCLEAN: None})
    refused = cluster.run("partitions", "alter", "orders", "--min-isr", "3", "--yes")
    assert (refused.exit_code, "fewer than its min ISR of 3" in refused.stderr) == (1, True)


def test_what_is_found_of_a_topic_is_shown_before_it_is_adopted(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    dry = cluster.run("partitions", "adopt", NAMELESS, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert ["old-0", "1,2", "Kafka's", "2", "1,2", "7"] in words(dry.stdout)
    assert ["old-1", "2,9", "none:", "never", "led", "-", "-", "-"] in words(dry.stdout)
    assert "brokers 1,2,9; not alive: 9\nNo daemon reports the topic_id" in dry.stdout
    assert dry.stdout.endswith(
        f"would adopt old with 2 partitions under the new topic_id {NEW_ID};"
        " replicas that brokers store under another id are deleted\n"
    )
    refused = cluster.run("partitions", "adopt", NAMELESS, stdin="n\n")
    assert (refused.exit_code, "Adopt old with 2 partitions" in refused.stderr) == (1, True)
    assert admin.written == []
    given = ["--topic-id", "5f" * 16, "--yes"]
    shown = cluster.json("partitions", "adopt", NAMELESS, *given)
    assert (shown["result"], shown["topic_id"], shown["dead"]) == ("adopted", "5f" * 16, [9])
    assert admin.written == [("adopt", NAMELESS, "5f" * 16)]
    again = cluster.run("partitions", "adopt", NAMELESS, *given)
    assert (again.exit_code, "has the topic_id" in again.stderr) == (1, True)


def test_a_new_id_is_the_one_that_was_shown(cluster: Cluster, admin: MemoryControllerAdmin) -> None:
    adopted = cluster.run("partitions", "adopt", NAMELESS, "--yes")
    assert adopted.stdout.endswith(
        f"adopted old with 2 partitions under the new topic_id {NEW_ID};"
        " the controller elects its leaders\n"
    )
    assert admin.written == [("adopt", NAMELESS, NEW_ID)]


@pytest.mark.parametrize(
    "options", [[], ["--min-isr", "0"], ["--min-isr", "2", "--reset", "min-isr"]]
)
def test_a_change_that_makes_no_sense_is_refused(options: list[str]) -> None:
    asked = ["partitions", "alter", "orders", *options, "--url", "http://127.0.0.1:1"]
    assert CliRunner().invoke(main, asked).exit_code == 2


def test_changes_of_leaders_are_shown_newest_first(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    shown = words(cluster.run("partitions", "history").stdout)
    when, zero = ["1970-01-01T00:01:00Z"], ["1970-01-01T00:00:00Z"]
    assert [*when, "orders-1", "1", "->", "2", "4", "2,3", "why"] in shown
    assert [*zero, "orders-0", "1", "->", "none", "4", "2,3", "why"] in shown
    assert admin.asked == (None, None, 50)
    rows = cluster.json("partitions", "history", "orders", "--partition", "1", "--limit", "9")
    assert rows[0]["before"] == 1
    assert list(admin.asked) == ["orders", 1, 9]
    assert cluster.json("partitions", "history", "orders-1") == rows
    assert list(admin.asked) == ["orders", 1, 50]
    alone = cluster.run("partitions", "history", "--partition", "1")
    assert (alone.exit_code, "--partition requires TOPIC" in alone.stderr) == (2, True)


def test_the_leader_of_a_partition_is_explained_with_its_replicas_and_changes(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    cluster.json(*GIVEN, "--yes")
    done = cluster.run("partitions", "explain", "orders-1")
    assert done.stdout.startswith("broker 2 leads: it is the preferred replica\n")
    shown = words(done.stdout)
    assert ["2", "live", "yes", "leader,", "preferred"] in shown
    assert ["1970-01-01T00:01:00Z", "orders-1", "1", "->", "2", "4", "2,3", "why"] in shown
    assert cluster.json("partitions", "explain", "orders-1")["leader"] == 2
    assert admin.asked == ("orders", 1, 1)
    unknown = cluster.run("partitions", "explain", "audit-0")
    assert (unknown.exit_code, "there is no topic audit" in unknown.stderr) == (1, True)


def test_a_topic_grows_as_shown(cluster: Cluster, admin: MemoryControllerAdmin) -> None:
    cluster.json(*GIVEN, "--yes")
    grow = ["partitions", "grow", "orders", "--partitions", "4", "--replicas", "3:1,4"]
    shown = cluster.json(*grow, "--dry-run")
    assert [row["replicas"] for row in shown["partitions"]] == [[3, 4], [1, 4]]
    assert len(admin.written) == 1
    done = cluster.run(*grow, stdin="y\n")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "orders now has 4 partitions")
    assert "Add 2 partitions to orders?" in done.stderr
    assert admin.written[1:] == [("grow", "orders", {2: (3, 4), 3: (1, 4)})]


def test_a_topic_is_deleted_when_that_is_confirmed(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    cluster.json(*GIVEN, "--yes")
    kept = cluster.run("partitions", "delete", "orders", stdin="n\n")
    assert kept.exit_code == 1
    assert "Delete orders: 2 partitions, and all their records?" in kept.stderr
    assert list(admin.held) == ["orders"]
    assert cluster.json("partitions", "delete", "orders", "--yes")["result"] == "deleting"
    assert list(admin.held) == []


# Reassignments.


@pytest.fixture
def moves(cluster: Cluster, admin: MemoryControllerAdmin, tmp_path: Path) -> str:
    """A planned file, for a topic that is there."""
    cluster.json(*GIVEN, "--yes")
    path = tmp_path / "moves.json"
    arguments = [*REASSIGN, "plan", "orders", "--brokers", "3,4", "--out", str(path)]
    planned = cluster.run(*arguments)
    assert planned.exit_code == 0, planned.output
    assert ["orders-0", "1,2", "3,4"] in words(planned.stdout)
    assert f"start --from {path}" in planned.stdout
    there = cluster.run(*arguments)
    assert (there.exit_code, "--force replaces it" in there.stderr) == (2, True)
    assert len(admin.written) == 1
    return str(path)


def test_a_plan_is_started_followed_and_shown(
    cluster: Cluster, admin: MemoryControllerAdmin, moves: str
) -> None:
    assert json.loads(Path(moves).read_text())["version"] == 1
    dry = cluster.json(*REASSIGN, "start", "--from", moves, "--dry-run")
    assert (dry["result"], dry["partitions"][0]["replicas"]) == ("dry_run", [3, 4])
    assert len(admin.written) == 1
    begun = cluster.run(*REASSIGN, "start", "--from", moves, "--yes")
    assert begun.stdout.splitlines()[-1].startswith("moving 2 partitions; ")
    targets = {TopicPartition("orders", 0): (3, 4), TopicPartition("orders", 1): (4, 3)}
    assert admin.written[1:] == [("reassign", targets)]
    shown = cluster.run(*REASSIGN, "status")
    assert ["orders-1", "4,3", "2,3", "4"] in words(shown.stdout)
    waited = cluster.run(*REASSIGN, "status", "--wait")
    assert (waited.exit_code, waited.stdout) == (0, "no reassignment is in progress\n")
    assert cluster.json(*REASSIGN, "status") == []
    assert admin.held["orders"].partitions[1].replicas == (4, 3)
    written = len(admin.written)
    again = cluster.json(*REASSIGN, "start", "--from", moves, "--yes", "--wait")
    assert (again["result"], len(again["partitions"])) == ("nothing", 2)
    said = cluster.run(*REASSIGN, "start", "--from", moves)
    assert (said.exit_code, said.stdout) == (0, "the partitions already have these replicas\n")
    assert len(admin.written) == written


def test_a_reassignment_is_throttled_while_it_is_in_progress(
    cluster: Cluster, admin: MemoryControllerAdmin, moves: str
) -> None:
    start = (*REASSIGN, "start", "--from", moves, "--throttle", "50MiB")
    dry = cluster.json(*start, "--dry-run")
    assert dry["sentence"] == "would move 2 partitions at no more than 50.0 MiB/s for each broker"
    assert cluster.json(*start, "--yes")["result"] == "moving"
    assert admin.throttle == 50 << 20
    dry = cluster.json(*REASSIGN, "throttle", "1000", "--dry-run")
    assert dry["after"] == {"throttle_bytes_per_s": 1000}
    assert admin.throttle == 50 << 20
    said = cluster.run(*REASSIGN, "throttle", "2 KiB/s", "--yes")
    assert said.stdout == (
        "copying new replicas of 2 partitions at no more than 2.0 KiB/s for each broker; before: "
        "at no more than 50.0 MiB/s for each broker\n"
    )
    assert "throttled to 2.0 KiB/s for each broker" in cluster.run(*REASSIGN, "status").stdout
    said = cluster.run(*REASSIGN, "throttle", "--remove", "--yes")
    assert "of 1 partition without a limit; before: at no more than 2.0 KiB/s" in said.stdout
    assert admin.throttle is None
    for wrong in ((), ("--remove", "5"), ("0",), ("5TB",), ("-1",), (str(1 << 63),)):
        assert cluster.run(*REASSIGN, "throttle", *wrong, "--yes").exit_code == 2, wrong
    admin.has_throttle = False
    refused = cluster.run(*start, "--yes")
    assert (refused.exit_code, "a release without a throttle" in refused.stderr) == (1, True)
    admin.has_throttle = True
    # The same file again changes the throttle only.
    assert cluster.json(*start, "--yes")["result"] == "moving"


def test_a_start_waits_for_what_it_began(
    cluster: Cluster, admin: MemoryControllerAdmin, moves: str
) -> None:
    others = [TopicPartition("users", number) for number in range(4)]
    asyncio.run(admin.create_topic("users", admin.spread(4, 1), TopicRules(), is_dry_run=False))
    asyncio.run(admin.reassign(dict.fromkeys(others, (4, 1)), is_dry_run=False))
    plan = json.loads(Path(moves).read_text())
    # The rest of the topic stays where it is.
    Path(moves).write_text(json.dumps({"partitions": plan["partitions"][1:]}))
    done = cluster.json(*REASSIGN, "start", "--from", moves, "--yes", "--wait")
    assert done["result"] == "moved"
    assert [admin.held["orders"].partitions[number].replicas for number in (0, 1)] == [
        (1, 2),
        (4, 3),
    ]
    assert not any(of.is_reassigning for of in admin.held["orders"].partitions.values())
    assert any(of.is_reassigning for of in admin.held["users"].partitions.values())


def test_a_move_that_another_request_took_back_is_not_a_success(
    cluster: Cluster, admin: MemoryControllerAdmin, moves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reassign_all = admin.reassign

    async def undone(
        targets: Mapping[TopicPartition, tuple[int, ...]],
        throttle: int | None,
        *,
        is_dry_run: bool,
    ) -> object:
        reply = await reassign_all(targets, throttle, is_dry_run=is_dry_run)
        if not is_dry_run:
            await admin.cancel_reassignment([TopicPartition("orders", 1)], is_dry_run=False)
        return reply

    monkeypatch.setattr(admin, "reassign", undone)
    waited = cluster.run(*REASSIGN, "start", "--from", moves, "--yes", "--wait")
    assert waited.exit_code == 1
    assert "another request has reassigned 1 partition, such as orders-1" in waited.stderr


def test_what_is_under_way_is_taken_back(
    cluster: Cluster, admin: MemoryControllerAdmin, moves: str
) -> None:
    cluster.json(*REASSIGN, "start", "--from", moves, "--yes")
    one = cluster.run(*REASSIGN, "cancel", "orders-1", "--yes")
    assert (one.exit_code, one.stdout.splitlines()[-1]) == (
        0,
        "cancelling the reassignment of 1 partition",
    )
    assert admin.written[-1] == ("cancel", [TopicPartition("orders", 1)])
    again = cluster.run(*REASSIGN, "cancel", "orders-1", "--yes")
    assert (again.exit_code, "is not being reassigned" in again.stderr) == (1, True)
    dry = cluster.json(*REASSIGN, "cancel", "--all", "--dry-run")
    assert [(row["partition"], row["replicas"]) for row in dry["partitions"]] == [(0, [1, 2])]
    assert cluster.json(*REASSIGN, "cancel", "--all", "--yes")["result"] == "cancelled"
    assert cluster.json(*REASSIGN, "cancel", "--all", "--yes")["result"] == "nothing"
    for wrong in ([], ["orders-0", "--all"], ["orders"], ["orders-x"]):
        assert cluster.run(*REASSIGN, "cancel", *wrong).exit_code == 2


def test_all_parts_of_a_large_plan_are_judged_before_one_is_begun(
    cluster: Cluster,
    admin: MemoryControllerAdmin,
    moves: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reassign, "AT_ONCE", 1)
    plan = json.loads(Path(moves).read_text())
    plan["partitions"][1]["replicas"] = [3, 9]
    Path(moves).write_text(json.dumps(plan))
    refused = cluster.run(*REASSIGN, "start", "--from", moves, "--yes")
    assert (refused.exit_code, "names 9" in refused.stderr) == (1, True)
    assert len(admin.written) == 1
    plan["partitions"][1]["replicas"] = [3, 4]
    Path(moves).write_text(json.dumps(plan))
    assert cluster.json(*REASSIGN, "start", "--from", moves, "--yes")["result"] == "moving"
    assert [len(written[1]) for written in admin.written[1:]] == [1, 1]


def test_how_far_a_plan_came_is_reported_if_a_later_part_is_refused(
    cluster: Cluster,
    admin: MemoryControllerAdmin,
    moves: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reassign, "AT_ONCE", 1)
    begin = admin._begin

    def begin_one(partition: TopicPartition, target: tuple[int, ...]) -> None:
        begin(partition, target)
        admin.refuse = InvalidReplicas("names 4: no such broker lives")

    monkeypatch.setattr(admin, "_begin", begin_one)
    stopped = cluster.run(*REASSIGN, "start", "--from", moves, "--yes")
    assert stopped.exit_code == 1
    assert "1 of 2 partitions were done; then: " in stopped.stderr
    assert "no such broker lives" in stopped.stderr


def test_of_a_plan_that_is_refused_as_a_whole_nothing_is_said_to_be_done(
    cluster: Cluster, admin: MemoryControllerAdmin, moves: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reassign_all = admin.reassign

    async def too_late(
        targets: Mapping[TopicPartition, tuple[int, ...]],
        throttle: int | None,
        *,
        is_dry_run: bool,
    ) -> object:
        if not is_dry_run:
            admin.refuse = InvalidReplicas("names 4: no such broker lives")
        return await reassign_all(targets, throttle, is_dry_run=is_dry_run)

    monkeypatch.setattr(admin, "reassign", too_late)
    refused = cluster.run(*REASSIGN, "start", "--from", moves, "--yes")
    assert refused.exit_code == 1
    assert "no such broker lives" in refused.stderr
    assert "were done" not in refused.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spoilt", "JSON"),
        ("[]", "object"),
        ("{}", "names no partitions"),
        ('{"partitions": [5]}', "each of partitions must be"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "each of partitions must be"),
    ],
)
def test_a_file_that_is_not_a_plan_is_rejected(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "moves.json"
    path.write_text(text)
    arguments = [*REASSIGN, "start", "--from", str(path), "--url", "http://127.0.0.1:1"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output


def test_nothing_to_move_is_said(cluster: Cluster, admin: MemoryControllerAdmin) -> None:
    cluster.json(*CREATE, "--replicas", "0:3,4", "--yes")
    planned = cluster.run(*REASSIGN, "plan", "orders", "--brokers", "3,4")
    assert (planned.exit_code, planned.stdout) == (0, "nothing would change\n")


def test_time_left_is_estimated_from_the_first_one_that_is_done() -> None:
    pace = ReassignPace(10, 100.0)
    assert pace.stage(10, 20, 130.0) == (
        0,
        10,
        "10 partitions left, 20 replicas not in sync yet, ETA unknown",
    )
    assert pace.eta_s(8, 130.0) == 120.0
    assert pace.stage(1, 1, 190.0) == (
        9,
        10,
        "1 partition left, 1 replica not in sync yet, ETA 10 s",
    )
    # More reassignments have begun meanwhile.
    assert pace.stage(12, 12, 190.0)[:2] == (0, 10)


# Leaders.


def test_preferred_leaders_are_elected_where_others_lead(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    cluster.json(*GIVEN, "--yes")
    assert cluster.json("elect", "preferred", "--yes")["result"] == "nothing"
    admin.held["orders"].leaders[1] = 3
    dry = cluster.run("elect", "preferred", "--dry-run")
    assert ["orders-1", "3", "2", "-"] in words(dry.stdout)
    assert dry.stdout.endswith("would elect 1 preferred leader\n")
    done = cluster.run("elect", "preferred", "orders-0", "orders-1", "--yes")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "elected 1 preferred leader")
    assert "the preferred replica leads" in done.stdout
    assert admin.held["orders"].leaders == {0: 1, 1: 2}


def test_an_unclean_election_wants_its_partitions_named(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    cluster.json(*GIVEN, "--yes")
    assert cluster.run("elect", "unclean", "--yes").exit_code == 2
    admin.held["orders"].leaders[0] = -1
    asked = cluster.run("elect", "unclean", "orders-0", stdin="n\n")
    assert (asked.exit_code, "Elect 1 unclean leader?" in asked.stderr) == (1, True)
    assert ["orders-0", "none", "1", "-"] in words(asked.stdout)
    assert cluster.json("elect", "unclean", "orders-0", "--yes")["result"] == "elected"
    assert admin.written[-1] == ("elect", "unclean", [TopicPartition("orders", 0)])


def test_an_election_that_failed_after_all_ends_with_an_error(
    cluster: Cluster, admin: MemoryControllerAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.json(*GIVEN, "--yes")
    admin.held["orders"].leaders[0] = 2
    elect = admin.elect

    async def too_late(kind: str, partitions: list[TopicPartition], *, is_dry_run: bool) -> object:
        if not is_dry_run:
            admin.held["orders"].leaders[0] = 1
        return await elect(kind, partitions, is_dry_run=is_dry_run)

    monkeypatch.setattr(admin, "elect", too_late)
    late = cluster.run("elect", "preferred", "orders-0", "--yes")
    assert (late.exit_code, "not: orders-0 (the preferred" in late.stdout) == (1, True), late.output


def test_the_controller_is_shown(cluster: Cluster) -> None:
    shown = cluster.run("controller", "show")
    assert shown.exit_code == 0, shown.output
    assert ["epoch", "5"] in words(shown.stdout)
    assert ["2", "b2:6650", "b2:8080", "702", "live", "-", "0", "0"] in words(shown.stdout)
    assert cluster.json("controller", "show")["brokers"][1]["broker"] == 2
    cluster.world.controller_id = None
    nobody = cluster.run("controller", "show")
    assert nobody.exit_code == 1
    assert "no broker is the controller at present (503); retry in" in nobody.stderr


def test_a_long_preview_says_how_many_there_are_more(
    cluster: Cluster, admin: MemoryControllerAdmin
) -> None:
    more = partition_arguments._MOST_SHOWN + 5
    options = ["--partitions", str(more), "--replication-factor", "1", "--dry-run"]
    shown = cluster.run(*CREATE, *options)
    assert "and 5 more; --output json has all" in shown.stdout
    assert len(cluster.json(*CREATE, *options)["partitions"]) == more


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(verb: str) -> None:
    result = CliRunner().invoke(main, [*verb.split(), "--help"])
    assert result.exit_code == 0
    assert f"broker-ctl {verb}" in result.stdout.partition("Example")[2]
