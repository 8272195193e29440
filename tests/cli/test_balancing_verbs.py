"""Verbs for the balancing as a whole, as an operator types them."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from broker_ctl.balancer.admin.operations import HistoryFilter
from broker_ctl.cli.cluster import _echo_lines
from broker_ctl.cli.main import main
from broker_ctl.cli.runtime.output import duration_text
from broker_ctl.clock import SystemClock
from broker_ctl.core.cluster.directives import DrainTerms
from broker_ctl.errors import OrderConflict
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import BUNDLES
from tests.support.clusters.memory_operations import BUNDLE as BUNDLE_THAT_STAYS
from tests.support.clusters.memory_operations import MemoryOperations
from tests.support.http.web_server import free_port

BUNDLE = str(BUNDLES[1])
PLAN = "0123456789ab"
VERBS = ["plan", "pause", "resume", "drain", "undrain", "history"]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()]) as served:
        yield served


@pytest.fixture
def operations(cluster: Cluster) -> MemoryOperations:
    return cluster.leader.admin.operations


# Pause.


def test_a_pause_is_made_reported_and_ended(cluster: Cluster) -> None:
    dry = cluster.run("pause", "--dry-run")
    assert dry.stdout == "would pause the balancing\n"
    assert cluster.run("resume", "--yes").stdout == "balancing is not paused\n"
    made = cluster.json("pause", "--reason", "network", "--yes")
    assert (made["result"], made["pause"]["reason"]) == ("paused", "network")
    again = cluster.run("pause", "--yes")
    assert again.exit_code == 0
    assert again.stdout.endswith(": network\n")
    assert cluster.run("resume", stdin="n\n").exit_code == 1
    assert cluster.leader.directives.pause is not None
    assert cluster.json("resume", "--yes")["result"] == "resumed"
    assert cluster.leader.directives.pause is None


# Drains.


def test_a_broker_is_drained_until_it_is_empty(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    broker_id = cluster.follower.broker_id
    asked = cluster.run("drain", broker_id, stdin="n\n")
    assert (asked.exit_code, operations.asked) == (1, [])
    assert f"Drain {broker_id}: 4 bundles, 286.1 MiB/s, to b:1 (3, 40.0% -> 60.0%)" in asked.stderr
    assert f"1 would stay, first {BUNDLE_THAT_STAYS}: isolation" in asked.stderr
    result = cluster.run("drain", broker_id, "--reason", "update", "--wait", "--yes")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{broker_id} is empty")
    assert "100%" in result.stderr
    assert operations.asked[0][1] == broker_id
    assert operations.asked[0][3:] == ("update", DrainTerms())


def test_drains_are_listed_with_what_is_left(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    broker_id = cluster.follower.broker_id
    begun = cluster.json("drain", broker_id, "--force", "--yes")
    assert begun["result"] == "draining"
    assert operations.asked[0][-1] == DrainTerms(is_forced=True)
    listed = cluster.run("drain")
    assert f"{broker_id}" in listed.stdout
    for cell in ("3 of 4", "286.1 MiB/s", "6 s"):
        assert cell in listed.stdout
    assert cluster.json("drain")[0]["state"] == "drained"


def test_a_drain_is_scheduled_and_listed(cluster: Cluster, operations: MemoryOperations) -> None:
    broker_id = cluster.follower.broker_id
    times = ("--at", "2100-01-31T02:00Z", "--until", "2100-01-31T04:00+00:00")
    dry = cluster.run("drain", broker_id, *times, "--until-restart", "--dry-run")
    assert dry.exit_code == 0, dry.output
    ends = f"until 2100-01-31T04:00:00Z or its restart or broker-ctl undrain {broker_id}"
    assert dry.stdout == f"would drain {broker_id} at 2100-01-31T02:00:00Z, {ends}\n"
    made = cluster.run("drain", broker_id, *times, "--reason", "move of the rack", "--yes")
    assert made.stdout.startswith(f"{broker_id} will be drained at 2100-01-31T02:00:00Z, until 21")
    begins_ms, ends_ms = 4_105_044_000_000, 4_105_051_200_000
    assert operations.asked[-1][-1] == DrainTerms(begins_ms, ends_ms)
    listed = cluster.run("drain").stdout
    assert "scheduled" in listed
    assert "2100-01-31T02:00:00Z" in listed
    assert cluster.json("drain")[0]["state"] == "scheduled"


def test_a_drain_may_begin_after_a_while(cluster: Cluster, operations: MemoryOperations) -> None:
    before_ms = SystemClock().wall_ms()
    made = cluster.json("drain", cluster.follower.broker_id, "--at", "+2h", "--yes")
    assert made["result"] == "scheduled"
    begins_ms = operations.asked[-1][-1].begins_ms
    assert before_ms <= begins_ms - 7_200_000 <= SystemClock().wall_ms()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--at", "tomorrow"), "'tomorrow' is not a time such as 2030-01-31T02:00"),
        (("--until", "+0h"), "'+0h' is not a time"),
        (("--at", "+1h", "--wait"), "--wait is for drains that begin now"),
        (("--self",), "either BROKER or --self"),
    ],
)
def test_options_of_a_drain_that_do_not_fit_are_refused(
    cluster: Cluster, operations: MemoryOperations, options: tuple[str, ...], complaint: str
) -> None:
    result = cluster.run("drain", cluster.follower.broker_id, *options, "--yes")
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())
    assert operations.asked == []


def test_a_daemon_drains_its_own_broker(cluster: Cluster, operations: MemoryOperations) -> None:
    result = cluster.run("drain", "--self", "--until-restart", "--wait", "--yes")
    assert result.exit_code == 0, result.output
    assert operations.asked[0][1] == cluster.follower.broker_id
    assert operations.asked[0][-1] == DrainTerms(until_restart=True)


def test_a_broker_is_undrained(cluster: Cluster) -> None:
    broker_id = cluster.follower.broker_id
    cluster.run("drain", broker_id, "--yes")
    assert cluster.json("undrain", broker_id, "--yes")["result"] == "undrained"
    assert cluster.json("undrain", broker_id, "--yes")["result"] == "nothing"
    unknown = cluster.run("undrain", "nobody:1", "--yes")
    assert unknown.exit_code == 1
    assert "not a live broker (404)" in unknown.stderr


def test_why_a_broker_is_not_drained_is_reported(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    operations.refuse = OrderConflict("nobody could receive its bundles")
    result = cluster.run("drain", cluster.follower.broker_id, "--yes")
    assert result.exit_code == 1
    assert "nobody could receive its bundles (409)" in result.stderr


# Plans.


def test_a_plan_says_what_moves_what_it_reaches_and_what_is_left(cluster: Cluster) -> None:
    result = cluster.run("plan")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    (move,) = [line for line in lines if "transfer t/ns/" in line]
    for cell in ("95.4 MiB/s", "a:1 50.0% -> 40.0%", "b:1 50.0% -> 60.0%", "overloaded: why"):
        assert cell in move
    assert any(
        line.split() == ["max", "over", "mean", "usage", "1.50", "->", "1.10"] for line in lines
    )
    assert ["it", "rests", "after", "its", "last", "change", "3"] in [
        line.split() for line in lines
    ]
    assert f"broker-ctl plan --approve {PLAN}" in result.stdout
    assert "5 % above the mean" in cluster.run("plan", "--verbose").stdout
    assert cluster.json("plan")["id"] == PLAN


def test_a_proposed_plan_is_shown_with_its_proposer(cluster: Cluster) -> None:
    result = cluster.run("plan", "--show", PLAN)
    assert ["proposed", "by", "bert"] in [line.split() for line in result.stdout.splitlines()]
    assert f"broker-ctl plan --approve {PLAN}" in result.stdout
    assert cluster.json("plan", "--show", PLAN)["proposed_by"] == "bert"


def test_a_plan_is_proposed_and_shown_to_who_approves(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    assert "no plan waits for an approval" in cluster.run("plan", "--proposals").stdout
    dry = cluster.run("plan", "--propose", PLAN, "--dry-run")
    assert dry.stdout.endswith(f"would propose plan {PLAN}\n")
    assert operations.proposals.open() == []
    made = cluster.run("plan", "--propose", "--yes", "--reason", "sale")
    assert made.stdout.endswith(
        f"plan {PLAN} waits for an approval: broker-ctl plan --approve {PLAN}\n"
    )
    shown = cluster.run("plan", "--proposals")
    assert "sale" in shown.stdout
    assert operations.plan_row["digest"] in shown.stdout
    [row] = cluster.json("plan", "--proposals")
    assert (row["id"], row["proposal_reason"]) == (PLAN, "sale")


def test_a_plan_is_shown_and_carried_out_when_that_is_wanted(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    refused = cluster.run("plan", "--approve", stdin="n\n")
    assert refused.exit_code == 1
    assert f"Carry out plan {PLAN}?" in refused.stderr
    assert "transfer t/ns/" in refused.stdout
    assert operations.approved == []
    done = cluster.run("plan", "--approve", "--wait", "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"plan {PLAN} is done: 2 done"
    assert operations.asked[-1][:2] == ("approve", PLAN)


def test_a_plan_is_approved_by_its_id_and_stopped(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    approved = cluster.json("plan", "--approve", PLAN, "--yes", "--reason", "sale")
    assert (approved["result"], approved["plan"]["reason"]) == ("approved", "sale")
    assert ("plan", False) not in operations.asked
    stopped = cluster.json("plan", "--stop", "--yes")
    assert stopped["result"] == "stopped"
    assert PLAN in cluster.run("plan", "--progress").stdout
    assert cluster.json("plan", "--stop", "--yes")["result"] == "nothing"


def test_a_plan_that_heals_policies_is_shown_and_carried_out(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    shown = cluster.run("plan", "--heal-policies")
    assert f"broker-ctl plan --approve {PLAN} carries it out" in shown.stdout
    assert cluster.run("plan", "--heal-policies", "--approve", "--yes").exit_code == 0
    assert operations.asked[-3:-1] == [("healing_plan", False), ("healing_plan", False)]
    assert operations.asked[-1][:2] == ("approve", PLAN)


@pytest.mark.parametrize("other", [("--approve", PLAN), ("--progress",), ("--stop",)])
def test_a_plan_that_heals_policies_is_a_new_one(
    cluster: Cluster, operations: MemoryOperations, other: tuple[str, ...]
) -> None:
    result = cluster.run("plan", "--heal-policies", *other)
    assert result.exit_code == 2
    assert "--heal-policies allows --approve or --propose without a plan id only" in result.stderr
    assert operations.asked == []


def test_a_plan_that_failed_in_part_ends_with_an_error(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    failed = {"id": PLAN, "state": "done", "decisions": 2, "waiting": 0, "done": 1, "failed": 1}
    operations.approved = [failed | {"obsolete": 0, "note": "", "by": "", "reason": ""}]

    async def approve(
        plan_id: str, who: str, why: str, digest: str, *, is_dry_run: bool = False
    ) -> dict[str, object]:
        del plan_id, who, why, digest, is_dry_run
        return operations.approved[0]

    operations.approve = approve  # type: ignore[assignment,method-assign]
    result = cluster.run("plan", "--approve", PLAN, "--wait", "--yes")
    assert result.exit_code == 1
    assert result.stdout.endswith(f"plan {PLAN} is done: 1 done, 1 failed\n")


def test_nothing_to_be_done_is_not_asked_for(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    operations.plan_row |= {"decisions": []}
    result = cluster.run("plan", "--approve")
    assert result.exit_code == 0, result.output
    assert "the plan is empty: nothing to do" in result.stdout
    assert cluster.run("plan", "--approve", "--progress").exit_code == 2


# Moves and history.


def test_move_is_the_move_of_bundles(cluster: Cluster) -> None:
    cluster.world.assign(BUNDLES[1], cluster.leader.broker_id)
    destination = cluster.follower.broker_id
    dry = cluster.run("bundles", "move", BUNDLE, destination, "--dry-run")
    assert dry.stdout.startswith(f"would move {BUNDLE} from {cluster.leader.broker_id}")
    moved = cluster.json("bundles", "move", BUNDLE, destination, "--yes")
    assert (moved["result"], moved["took_s"] >= 0) == ("moved", True)
    assert cluster.world.owners[BUNDLES[1]] == destination


def test_history_is_filtered_by_the_leader(cluster: Cluster, operations: MemoryOperations) -> None:
    result = cluster.run("history")
    assert result.exit_code == 0, result.output
    assert "1970-01-01T00:00:00Z" in result.stdout
    assert "cluster: below threshold" in result.stdout
    options = ["--kind", "split", "--broker", "b:1", "--bundle", BUNDLE]
    times = ("--since", "2030-01-31T03:00Z", "--until", "2030-01-31T03:20Z")
    rows = cluster.json("history", *options, *times, "--limit", "7")
    assert rows[0]["result"] == "skipped"
    wanted = HistoryFilter("split", "b:1", BUNDLE, 1_896_058_800_000, 1_896_060_000_000, 7)
    assert operations.asked[-1] == ("history", wanted)
    backwards = CliRunner().invoke(main, ["history", "--since", "1h", "--until", "2h"])
    assert (backwards.exit_code, "--since is after --until" in backwards.stderr) == (2, True)


def test_why_a_decision_failed_is_in_sight_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    unload = {"bundle": BUNDLE, "source": "b:1", "reason": "imbalance", "detail": "1.2 times"}
    row = {"at_ms": 0, "result": "failed", "outcome": "no answer in 30 s", **unload}
    _echo_lines([row | {"sentence": f"unload {BUNDLE} from b:1: imbalance: 1.2 times"}])
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("01-01T00:00:00Z  failed   no answer in 30 s; imbalance: ")
    assert len(line) == 60


def test_history_has_one_line_a_decision_on_a_terminal(cluster: Cluster) -> None:
    screen, terminal = os.openpty()
    command = [sys.executable, "-m", "broker_ctl", "history", "--url", cluster.follower.url]
    done = subprocess.run(
        command,
        stdout=terminal,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "60"},
        check=True,
    )
    os.close(terminal)
    shown = os.read(screen, 65536).decode().splitlines()
    os.close(screen)
    whole = cluster.json("history")
    assert len(shown) == len(whole)
    assert shown[0].startswith("01-01T00:00:00Z  skipped  below threshold: cluster: ")
    assert all(len(line) <= 60 for line in shown)
    assert shown[0].endswith("…")
    assert "--output wide shows whole lines" in done.stderr


@pytest.mark.parametrize("text", ["0s", "2", "h", "1.5h", "1 h", "9999999s", "2w"])
def test_text_without_a_duration_is_a_wrong_option(text: str) -> None:
    result = CliRunner().invoke(main, ["history", "--since", text])
    assert result.exit_code == 2
    assert "is not a time such as 2030-01-31T02:00" in result.stderr


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (0, "0 s"), (59.4, "59 s"), (125, "2 min 5 s"), (4800, "1 h 20 min")],
)
def test_a_duration_is_shown_in_two_units(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(verb: str) -> None:
    result = CliRunner().invoke(main, [verb, "--help"])
    assert result.exit_code == 0
    assert f"broker-ctl {verb}" in result.stdout.partition("Example")[2]


def test_history_is_asked_for_by_what_came_of_it(
    cluster: Cluster, operations: MemoryOperations
) -> None:
    cluster.json("history", "--result", "failed")
    assert operations.asked[-1] == ("history", HistoryFilter(result="failed", limit=50))
    assert cluster.run("history", "--result", "perhaps").exit_code == 2
