"""Brokers with an API server, on a loop in its own thread, for verbs that are run as they are."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner, Result

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.cli.main import main
from tests.support.clusters.fake_services import Broker, serving_brokers
from tests.support.time.waiting import PATIENCE_S


class Cluster:
    """Two brokers; the first leads. A verb asks the second unless it says which."""

    def __init__(self, brokers: list[Broker]) -> None:
        self.leader, self.follower = brokers
        self.world = self.leader.world

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        """Type a verb."""
        environment = {"BROKER_CTL_URL": self.follower.url}
        return CliRunner(env=environment).invoke(main, arguments, input=stdin)

    def json(self, *arguments: str) -> Any:
        """The JSON output of a verb that succeeds."""
        result = self.run(*arguments, "--output", "json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@contextmanager
def running(
    ports: Sequence[int], rules: ApiRules | None = None, token: str | None = None
) -> Iterator[Cluster]:
    """The cluster, for the length of the block."""
    ready, ended = threading.Event(), threading.Event()
    held: list[Cluster] = []
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        leave = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with serving_brokers(ports, rules, token) as brokers:
            held.append(Cluster(brokers))
            stop.append(lambda: loop.call_soon_threadsafe(leave.set))
            ready.set()
            await leave.wait()

    def work() -> None:
        try:
            asyncio.run(serve())
        finally:
            ended.set()
            ready.set()

    thread = threading.Thread(target=work, name="brokers")
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        assert held, "the brokers did not start"
        yield held[0]
    finally:
        for leave in stop:
            leave()
        thread.join(PATIENCE_S)
        assert ended.is_set()
