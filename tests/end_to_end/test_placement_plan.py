"""A placement plan of a file, given to real daemons by the command."""

import asyncio
import json
from functools import partial
from pathlib import Path

from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.clock import SystemClock
from broker_ctl.core.cluster.plan_file import PlanFile, PlannedMove
from broker_ctl.core.model.names import Bundle, Namespace, Ring, Topic
from broker_ctl.http_client import HttpClient
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import leader_of, look_up, make_namespace
from tests.support.time.waiting import eventually

RING = Ring.even(Namespace("public", "default"), 8)
TOPICS = [Topic("persistent", RING.namespace, f"t-{number}") for number in range(60)]


def plan_file(owners: dict[str, str], brokers: list[str]) -> PlanFile:
    """Every bundle to the other broker; the first one from where it is not."""
    moves = []
    for number, (bundle, owner) in enumerate(sorted(owners.items())):
        other = next(each for each in brokers if each != owner)
        ends = (other, owner) if number == 0 else (owner, other)
        moves.append(PlannedMove(Bundle.parse(bundle), *ends, 1.0))
    now_ms = SystemClock().wall_ms()
    return PlanFile("quickstart", now_ms, 0, now_ms - 1, tuple(moves), (1.5,), (1.1,))


async def test_bundles_end_where_the_plan_of_a_file_places_them(
    new_cluster: NewCluster, http: HttpClient, tmp_path: Path
) -> None:
    settings = {
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
        "loadBalancerSheddingGracePeriodMinutes": "0",
    }
    async with new_cluster(2, **settings) as daemons:
        await daemons.wait_ready(http)
        first, second = daemons.all
        await make_namespace(http, first, 8)
        for topic in TOPICS:
            await eventually(partial(look_up, http, first, topic), what=str(topic))
        await eventually(lambda: leader_of(http, daemons.all), what="a leader")

        async def owners() -> dict[str, str]:
            url = f"{first.url}/control/v1/owners?namespace={RING.namespace}"
            rows = (await http.request("GET", url)).json()
            return {row["bundle"]: row["owner"] for row in rows if row["owner"]}

        async def run(*arguments: str) -> Result:
            runner = CliRunner(env={"BROKER_CTL_URL": second.url})
            return await asyncio.to_thread(runner.invoke, main, ["plan", *arguments])

        async def is_complete() -> bool:
            return len(await owners()) == 8

        await eventually(is_complete, what="every bundle has an owner")
        before = await owners()
        plan = plan_file(before, [first.broker_id, second.broker_id])
        path = tmp_path / "placement.json"
        path.write_text(json.dumps(plan.to_row()))

        async def is_measured() -> bool:
            result = await run("--from", str(path), "--output", "json")
            assert result.exit_code == 0, result.output
            return bool(json.loads(result.stdout)["moves"] == 7)

        await eventually(is_measured, what="the leader takes what is right of it")
        result = await run("--from", str(path), "--approve", "--wait", "--yes")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[-1].endswith("is done: 7 done")
        wrong, *right = plan.moves
        after = await owners()
        assert after[str(wrong.bundle)] == before[str(wrong.bundle)]
        assert {str(move.bundle): after[str(move.bundle)] for move in right} == {
            str(move.bundle): move.destination for move in right
        }
