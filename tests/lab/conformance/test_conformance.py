"""The conformance test: passes an honest broker process, and names what a broken one breaks."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

import pytest
import pytest_asyncio
from aiohttp import web

from broker_ctl.clock import SystemClock
from broker_ctl.core.model.names import Bundle
from broker_ctl.dataplane.bundles.interface import Authority
from broker_ctl.dataplane.webhook import replica_wire, wire
from broker_ctl.errors import (
    DataPlaneRefused,
    DataPlaneUnreachable,
    HttpError,
    StartError,
)
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.conformance.runner import CheckResult, check_broker
from docs.examples.call_gate import CallGate
from docs.examples.reference_broker import Fields, ReferenceBroker, ReferenceReplicas
from tests.support.http.web_server import free_port, serving

SECRET = "shared-by-both"
PULL_S = 0.1


class Forgetful(ReferenceBroker):
    """Forgets the tokens of a bundle with the bundle."""

    def unload(self, body: Fields) -> Fields:
        done = super().unload(body)
        kept = {entry.bundle: entry.token for entry in self.table}
        self.table = type(self.table)()
        for bundle, token in kept.items():
            self.table.load(bundle, token)
        return done


class Gullible(ReferenceBroker):
    """Accepts any token: it forgets all others at each call."""

    def load(self, body: Fields) -> Fields:
        self.table = type(self.table)()
        return super().load(body)


class Stubborn(ReferenceBroker):
    """Confirms an unload and goes on serving."""

    def unload(self, _: Fields) -> Fields:
        return {"topics_closed": 0, "is_confirmed": True}

    def fence(self, _: Fields) -> Fields:
        return {}


class Immortal(ReferenceBroker):
    """Never believes that its authority has ended."""

    def state(self, _: object) -> Fields:
        state = super().state({})
        state["authority"]["remaining_ms"] = max(1, state["authority"]["remaining_ms"])
        return state


class Optimist(ReferenceBroker):
    """Counts its deadline from the answer, as if the way back had taken no time."""

    async def pull_authority(self, http: HttpClient, url: str) -> None:
        with contextlib.suppress(HttpError):
            reply = await http.request("GET", url)
            epoch, remaining_ms = wire.authority(reply.json())
            self.authority = Authority(epoch, self.clock.now_s() + remaining_ms / 1000)


class Hoarder(ReferenceBroker):
    """Keeps the longer of two grants."""

    async def pull_authority(self, http: HttpClient, url: str) -> None:
        before = self.authority
        await super().pull_authority(http, url)
        if self.authority.deadline_s < before.deadline_s:
            self.authority = before


class Nameless(ReferenceBroker):
    """Answers each call as another instance."""

    def state(self, _: object) -> Fields:
        self.instance_id += "x"
        return super().state({})


class Garrulous(ReferenceBroker):
    """Reports a version that cannot be printed."""

    def state(self, query: Mapping[str, str]) -> Fields:
        return {**super().state(query), "version": "4.2\n" * 100}


class Careless(ReferenceBroker):
    """Checks no secret."""

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        open_door = request.clone(headers={"Authorization": f"Bearer {SECRET}"})
        open_door._payload = request._payload
        open_door._match_info = request._match_info
        return await super()._guard(open_door, handler)


class _Unjudging(CallGate):
    """Numbers the calls of daemons, and checks no number."""

    def admit(self, *_: object) -> None:
        return

    def admit_replicas(self, *_: object) -> None:
        return


class _OfAnyDaemon(CallGate):
    """Checks the hashes, not the daemon that calls."""

    def _number(self, body: Mapping[str, object]) -> int:
        return wire.count(body, wire.CALL)


class Undead(ReferenceBroker):
    """Obeys late calls of a dead daemon, until another daemon names the bundle."""

    def app(self) -> web.Application:
        self.calls = _OfAnyDaemon(self.instance_id)
        return super().app()


class Timeless(ReferenceBroker):
    """Obeys each call, however late it arrives."""

    def app(self) -> web.Application:
        self.calls = _Unjudging(self.instance_id)
        return super().app()


class Jealous(ReferenceBroker):
    """Takes the number of one call for all bundles."""

    def load(self, body: Fields) -> Fields:
        self.calls.admit(body, Bundle.parse("a/b/0x00000000_0xffffffff"))
        return super().load(body)


class Recounting(ReferenceBroker):
    """Lets each daemon count from the same number."""

    def attach(self, body: Fields) -> Fields:
        return {wire.FIRST_CALL: body.get(wire.CALL, 1000)}


class Dishonouring(ReferenceBroker):
    """Answers each attachment, and accepts the daemon before until this one calls."""

    def attach(self, body: Fields) -> Fields:
        return {wire.FIRST_CALL: body[wire.CALL]} if wire.CALL in body else super().attach(body)


class Rash(ReferenceBroker):
    """Takes each daemon that asks for a number for the live one."""

    def attach(self, body: Fields) -> Fields:
        first = super().attach(body)
        return super().attach({wire.CALL: first[wire.FIRST_CALL]})


class OnceNumbered(ReferenceBroker):
    """A broker process of the release before: takes each attachment for a first one."""

    def attach(self, _: Fields) -> Fields:
        return super().attach({})


class Reloading(ReferenceBroker):
    """Forgets the numbers of calls with the bundle."""

    def unload(self, body: Fields) -> Fields:
        done = super().unload(body)
        self.calls = CallGate(self.instance_id)
        return done


class _AnyInstance(CallGate):
    """Obeys calls that are meant for another instance."""

    def check_instance(self, _: object) -> None:
        return


class Impersonating(ReferenceBroker):
    """Accepts calls that are meant for another instance."""

    def app(self) -> web.Application:
        self.calls = _AnyInstance(self.instance_id)
        return super().app()


class Outdated(ReferenceBroker):
    """A broker process of the release before, without numbers of calls."""

    def attach(self, _: Fields) -> Fields:
        raise DataPlaneRefused("no such path")


class Pushed(ReferenceBroker):
    """Never asks for authority."""

    async def pull_authority(self, *_: object) -> None:
        return


class Unfenced(ReferenceReplicas):
    """Obeys instructions of any epoch: it forgets its replicas first."""

    def lead(self, body: Fields) -> Fields:
        self.table.replicas.clear()
        return super().lead(body)


class Clinging(ReferenceReplicas):
    """Never deletes a log."""

    def stop(self, body: Fields) -> Fields:
        kept = [[*row[:4], False] for row in body["stops"]]
        return super().stop({**body, "stops": kept})


class Dilatory(ReferenceReplicas):
    """Obeys deletions, however late they arrive."""

    def _admit(self, *_: object) -> None:
        return


class Lenient(ReferenceReplicas):
    """Ignores malformed answers instead of refusing them."""

    def answer(self, body: Fields) -> Fields:
        with contextlib.suppress(ValueError):
            super().answer(body)
        return {}


class Unhearing(ReferenceReplicas):
    """Ignores the lag time that the daemon sends."""

    def wishes(self, _: Mapping[str, str]) -> Fields:
        return super().wishes({})


class Hasty(ReferenceReplicas):
    """Proposes an ISR without the members that are not there yet."""

    def wishes(self, query: Mapping[str, str]) -> Fields:
        replica_wire.lag_time_s(query)
        return replica_wire.wishes_json(self.leaders.proposals(-1.0))


class Amnesiac(ReferenceReplicas):
    """Lists none of its replicas."""

    def answers(self) -> Mapping[str, Callable[[Mapping[str, str]], Fields]]:
        return {**super().answers(), replica_wire.REPLICAS: lambda _: {"replicas": []}}


class NoBroker(ReferenceBroker):
    """A server that knows the secret, and answers each call with a greeting."""

    def _reply(self, *_: object) -> web.Response:
        return web.Response(text="It works!")


# Which checks must fail; others may fail too, where one fault shows in several places.
BROKEN: dict[type[ReferenceBroker], set[str]] = {
    Undead: {"call: of the daemon before is 409", "attach: ends the daemon before"},
    Forgetful: {"token outlives unload and fence"},
    Gullible: {
        "load: smaller token is 409",
        "load: token covers every overlap",
        "renew: raises the token",
        "split: and again",
        "merge: and again",
        "token outlives unload and fence",
    },
    Stubborn: {"unload: confirms, and again", "fence: at once, and again"},
    Nameless: {"instance_id: the same in every reply"},
    Garrulous: {"state: bundles and authority"},
    Careless: {"wrong or no secret is 401"},
    Immortal: {"authority: less replaces more", "authority: expires by itself"},
    Optimist: {"authority: counted from the asking"},
    Hoarder: {"authority: less replaces more", "authority: expires by itself"},
    Timeless: {
        "call: a late load is 409",
        "call: a late fence, unload or split is 409",
        "call: number outlives unload and daemon",
        "call: of the daemon before is 409",
        "attach: ends the daemon before",
    },
    Jealous: {"call: elsewhere it is not late"},
    Recounting: {"attach: calls are counted upwards"},
    Dishonouring: {"attach: ends the daemon before"},
    Rash: {"attach: a first number ends nobody"},
    OnceNumbered: {"attach: ends the daemon before"},
    Reloading: {"call: number outlives unload and daemon"},
    Impersonating: {"call: for another instance is 412"},
    Outdated: {"attach: calls are counted upwards"},
    Pushed: {
        "authority: pulled with the secret",
        "authority: counted from the asking",
        "authority: less replaces more",
        "authority: expires by itself",
    },
}
BROKEN_REPLICAS: dict[type[ReferenceReplicas], set[str]] = {
    Unfenced: {"replicas: smaller leader epoch", "replicas: another topic of that name"},
    Clinging: {"replicas: stop and delete, and again"},
    Dilatory: {"replicas: a late deletion is 409"},
    Lenient: {"replicas: malformed body is 400"},
    Unhearing: {"replicas: ISR proposals by the requested lag time"},
    Hasty: {"replicas: ISR proposals by the requested lag time"},
    Amnesiac: {
        "replicas: made and shown, and again",
        "replicas: smaller leader epoch",
        "replicas: another topic of that name",
        "replicas: stop and delete, and again",
        "replicas: answers about the ISR",
    },
}
Report = tuple[CheckResult, ...]
# By the kind of broker process, or of what it does with replicas.
Kind = type[ReferenceBroker] | type[ReferenceReplicas]
Reports = dict[Kind, Report]
Runs = dict[Kind, tuple[Report, list[Bundle]]]

MINE = Bundle.parse("public/default/0x00000000_0xffffffff")


async def report_on(
    kind: type[ReferenceBroker],
    times: int = 1,
    replicas: type[ReferenceReplicas] | None = None,
) -> tuple[Report, list[Bundle]]:
    """The last of several reports on one broker process, and the bundles loaded after it."""
    port = free_port()
    broker = kind(SECRET, f"http://127.0.0.1:{port}{wire.AUTHORITY}", PULL_S)
    if replicas is not None:
        broker.replicas = replicas(broker, broker_id=1)
    broker.table.load(MINE, 1)
    async with serving(broker.app()) as url:
        for _ in range(times):
            report = await check_broker(url, SECRET, ("127.0.0.1", port), SystemClock())
    return report, [entry.bundle for entry in broker.table]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs() -> Runs:
    """All of them at once: a check mostly waits."""
    async with asyncio.TaskGroup() as tasks:
        running = {
            kind: tasks.create_task(report_on(kind), name=kind.__name__)
            for kind in (*BROKEN, NoBroker)
        }
        with_replicas = {
            kind: tasks.create_task(
                report_on(ReferenceBroker, times, replicas=kind), name=kind.__name__
            )
            for kind, times in {**dict.fromkeys(BROKEN_REPLICAS, 1), ReferenceReplicas: 2}.items()
        }
        honest = tasks.create_task(report_on(ReferenceBroker, times=2), name="honest")
    ended = {kind: task.result() for kind, task in (running | with_replicas).items()}
    return {ReferenceBroker: honest.result()} | ended


@pytest.fixture
def reports(runs: Runs) -> Reports:
    return {kind: report for kind, (report, _) in runs.items()}


def test_an_honest_broker_passes_again_and_again_and_is_left_clean(
    runs: Runs,
) -> None:
    report, left = runs[ReferenceBroker]
    assert failed(report) == set()
    assert len(report) > 20
    assert left == [MINE]


def failed(report: Report) -> set[str]:
    return {result.name for result in report if not result.is_ok}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_broker_fails_the_checks_of_what_it_breaks(
    reports: Reports, kind: type[ReferenceBroker]
) -> None:
    assert failed(reports[kind]) >= BROKEN[kind]


@pytest.mark.parametrize("kind", [Forgetful, Optimist, Hoarder, Careless, Timeless, Pushed])
def test_a_fault_does_not_fail_the_other_checks(
    reports: Reports, kind: type[ReferenceBroker]
) -> None:
    assert failed(reports[kind]) == BROKEN[kind]


def test_a_server_that_is_not_a_broker_fails_every_check(reports: Reports) -> None:
    assert all(not result.is_ok for result in reports[NoBroker])


def test_only_a_failed_check_says_what_was_expected_and_seen(reports: Reports) -> None:
    for result in (result for report in reports.values() for result in report):
        assert result.is_ok == (not result.expected) == (not result.seen), result


def test_the_report_of_a_broker_that_pulls_no_authority_names_the_path_to_ask(
    reports: Reports,
) -> None:
    (pulled,) = [r for r in reports[Pushed] if r.name == "authority: pulled with the secret"]
    assert f"{wire.AUTHORITY} (check its configuration)" in pulled.expected


def test_a_broker_without_replicas_is_not_asked_for_them(reports: Reports) -> None:
    assert not [r for r in reports[ReferenceBroker] if r.name.startswith("replicas: ")]


def test_a_broker_with_replicas_passes_again_and_again(reports: Reports) -> None:
    report = reports[ReferenceReplicas]
    assert failed(report) == set()
    assert len([result for result in report if result.name.startswith("replicas: ")]) == 9


@pytest.mark.parametrize("kind", BROKEN_REPLICAS)
def test_a_broker_with_broken_replicas_fails_the_checks_of_what_they_break(
    reports: Reports, kind: type[ReferenceReplicas]
) -> None:
    assert failed(reports[kind]) >= BROKEN_REPLICAS[kind]


async def test_a_url_where_no_process_listens_is_one_clear_error() -> None:
    with pytest.raises(DataPlaneUnreachable, match="state: "):
        await check_broker(
            f"http://127.0.0.1:{free_port()}", SECRET, ("127.0.0.1", free_port()), SystemClock()
        )


async def test_a_daemon_that_still_runs_is_one_clear_error() -> None:
    async with (
        serving(ReferenceBroker(SECRET, None).app()) as url,
        serving(web.Application()) as daemon,
    ):
        port = int(daemon.rpartition(":")[2])
        with pytest.raises(StartError, match="cannot stand in for the daemon"):
            await check_broker(url, SECRET, ("127.0.0.1", port), SystemClock())


def test_checks_do_not_leave_tasks_behind() -> None:
    async def run() -> int:
        with pytest.raises(DataPlaneUnreachable):
            await check_broker("http://127.0.0.1:1", SECRET, ("127.0.0.1", 0), SystemClock())
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1
