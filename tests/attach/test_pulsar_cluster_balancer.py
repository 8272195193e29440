"""Which parts of a cluster's balancer are on, how it is switched off, and put back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.attach import admin as balancer_switch
from broker_ctl.attach.admin import (
    PreviousOverride,
    PulsarAdmin,
    disable_balancing,
    restore_balancing,
)
from broker_ctl.attach.attached import Attached
from broker_ctl.attach.cluster_balancer import KEYS, judge
from broker_ctl.cli.attach_runner import balancer_disabled
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.strategies.load_managers import EXTENSIBLE, MODULAR, SIMPLE, LoadManager
from broker_ctl.errors import PeerRefused, PeerUnreachable
from broker_ctl.http_client import HttpClient
from tests.support.http.web_server import serving
from tests.support.time.waiting import PATIENCE_S

SHEDDING = "loadBalancerSheddingEnabled"
SPLIT = "loadBalancerAutoBundleSplitEnabled"
UNLOAD = "loadBalancerAutoUnloadSplitBundlesEnabled"
DYNAMIC = frozenset({SHEDDING, SPLIT, UNLOAD, "loadManagerClassName"})
QUIET = {SHEDDING: "false", SPLIT: "false"}


def test_where_all_is_off_nothing_is_found() -> None:
    assert judge({"a:1": QUIET, "b:1": {**QUIET, UNLOAD: "true"}}, DYNAMIC) == ()


def test_a_key_that_a_broker_does_not_report_has_pulsars_default() -> None:
    assert [one.key for one in judge({"a:1": {}}, DYNAMIC)] == [SHEDDING, SPLIT, UNLOAD]


def test_a_key_that_is_on_is_reported_with_its_brokers_and_the_command_that_ends_it() -> None:
    running = {"b:1": QUIET, "c:1": {**QUIET, SHEDDING: "TRUE"}, "a:1": {**QUIET, SHEDDING: "TRUE"}}
    (found,) = judge(running, DYNAMIC)
    assert (found.key, found.value, found.brokers) == (SHEDDING, "TRUE", ("a:1", "c:1"))
    assert found.is_dynamic
    assert found.command == (
        f"pulsar-admin brokers update-dynamic-config --config {SHEDDING} --value false"
    )
    assert str(found).startswith(f"{SHEDDING}=TRUE: the leading broker unloads bundles")


def test_what_is_not_dynamic_needs_a_restart() -> None:
    (found,) = judge({"a:1": {**QUIET, SHEDDING: "true"}}, frozenset())
    assert not found.is_dynamic
    assert found.command == f"set {SHEDDING}=false in broker.conf and restart a:1"


def test_a_load_balancer_that_is_disabled_is_reported_as_to_be_enabled() -> None:
    (found,) = judge({"a:1": {"loadBalancerEnabled": "false"}}, DYNAMIC)
    assert (found.key, found.wanted, found.is_dynamic) == ("loadBalancerEnabled", "true", False)


@pytest.mark.parametrize("manager", [EXTENSIBLE, SIMPLE])
def test_a_manager_that_hands_nothing_over_to_the_others_cannot_be_changed_at_run_time(
    manager: LoadManager,
) -> None:
    running = {"a:1": {**QUIET, "loadManagerClassName": manager.class_name}, "b:1": QUIET}
    (found,) = judge(running, DYNAMIC)
    assert (found.key, found.wanted) == ("loadManagerClassName", MODULAR.class_name)
    assert found.brokers == ("a:1",)
    assert not found.is_dynamic


def test_the_extensible_manager_of_all_brokers_is_not_in_the_way() -> None:
    running = {**QUIET, "loadManagerClassName": EXTENSIBLE.class_name}
    assert judge({"a:1": running, "b:1": running}, DYNAMIC) == ()
    shedding = {**running, SHEDDING: "true"}
    assert [one.key for one in judge({"a:1": shedding, "b:1": running}, DYNAMIC)] == [SHEDDING]


@given(
    st.dictionaries(
        st.sampled_from(["a:1", "b:1", "c:1"]),
        st.dictionaries(st.sampled_from(sorted(KEYS)), st.sampled_from(["true", "false", "?"])),
    )
)
def test_doing_what_is_said_leaves_nothing_to_be_found(
    running: dict[str, dict[str, str]],
) -> None:
    # A load balancer that comes on may shed: what was hidden behind it shows in the next look.
    for _ in range(2):
        for one in judge(running, DYNAMIC):
            for broker_id in one.brokers:
                running[broker_id][one.key] = one.wanted
    assert judge(running, DYNAMIC) == ()


class Configured:
    """A cluster of two brokers whose configuration can be changed at run time.

    Attributes:
        overrides: what was changed.
        deaf: brokers that do not obey.
        refused: keys that are not dynamic after all.
        answers: what is dropped waits for it.
    """

    def __init__(self) -> None:
        self.at_start = {SHEDDING: "true", SPLIT: "true", UNLOAD: "true"}
        self.overrides: dict[str, str] = {}
        self.deaf: set[str] = set()
        self.refused: set[str] = set()
        self.answers = asyncio.Event()
        self.answers.set()
        self.urls: dict[str, BrokerUrls] = {}

    def app(self, broker_id: str) -> web.Application:
        async def clusters(_: web.Request) -> web.Response:
            return web.json_response(["test"])

        async def dynamic(_: web.Request) -> web.Response:
            return web.json_response(sorted(DYNAMIC))

        async def values(_: web.Request) -> web.Response:
            return web.json_response(self.overrides)

        async def running(_: web.Request) -> web.Response:
            heard = {} if broker_id in self.deaf else self.overrides
            return web.json_response({**self.at_start, **heard})

        app = web.Application()
        root = "/admin/v2/brokers/configuration"
        app.router.add_get("/admin/v2/clusters", clusters)
        app.router.add_get(root, dynamic)
        app.router.add_get(f"{root}/values", values)
        app.router.add_get(f"{root}/runtime", running)
        app.router.add_post(f"{root}/{{key}}/{{value}}", self._change)
        app.router.add_delete(f"{root}/{{key}}", self._drop)
        return app

    async def _change(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        if key in self.refused:
            reason = "Can't update non-dynamic configuration"
            return web.json_response({"reason": reason}, status=412)
        self.overrides[key] = request.match_info["value"]
        return web.Response()

    async def _drop(self, request: web.Request) -> web.Response:
        await self.answers.wait()
        self.overrides.pop(request.match_info["key"], None)
        return web.Response()


@asynccontextmanager
async def configured() -> AsyncIterator[tuple[Configured, PulsarAdmin]]:
    cluster = Configured()
    async with (
        serving(cluster.app("a:1")) as a,
        serving(cluster.app("b:1")) as b,
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        cluster.urls = {"a:1": BrokerUrls("a:1", a), "b:1": BrokerUrls("b:1", b)}
        yield cluster, PulsarAdmin((a,), http, lambda: cluster.urls, act_timeout_s=5)


async def test_what_was_switched_off_is_put_back_as_it_was() -> None:
    async with configured() as (cluster, admin):
        cluster.overrides = {SPLIT: "TRUE", "minUnloadMessage": "7"}
        before = dict(cluster.overrides)
        former = await disable_balancing(admin, await admin.cluster_balancer())
        assert former[:2] == (
            PreviousOverride(SHEDDING, None, "true", "false"),
            PreviousOverride(SPLIT, "TRUE", "TRUE", "false"),
        )
        assert await admin.cluster_balancer() == ()
        assert [one.command.partition("brokers ")[2] for one in former[:2]] == [
            f"delete-dynamic-config --config {SHEDDING}",
            f"update-dynamic-config --config {SPLIT} --value TRUE",
        ]
        assert await restore_balancing(admin, former) == ()
        assert cluster.overrides == before


async def test_a_key_that_an_operator_changed_meanwhile_is_not_restored() -> None:
    async with configured() as (cluster, admin):
        former = await disable_balancing(admin, await admin.cluster_balancer())
        cluster.overrides[SPLIT] = "true"
        del cluster.overrides[SHEDDING]
        assert await restore_balancing(admin, former) == ()
        assert cluster.overrides == {SPLIT: "true"}


async def test_a_change_that_is_refused_takes_the_others_back() -> None:
    async with configured() as (cluster, admin):
        cluster.refused = {UNLOAD}
        with pytest.raises(PeerRefused, match="Can't update non-dynamic configuration"):
            await disable_balancing(admin, await admin.cluster_balancer())
        assert cluster.overrides == {}


async def test_brokers_that_do_not_obey_are_not_taken_for_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(balancer_switch, "_APPLIED_WITHIN_S", 0.05)
    async with configured() as (cluster, admin):
        cluster.deaf = {"b:1"}
        with pytest.raises(PeerUnreachable, match="not all brokers run with"):
            await disable_balancing(admin, await admin.cluster_balancer())
        assert cluster.overrides == {}


async def test_a_cancelled_wait_leaves_no_override_behind() -> None:
    async with configured() as (cluster, admin):
        cluster.deaf = {"b:1"}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await disable_balancing(admin, await admin.cluster_balancer())
        assert cluster.overrides == {}


async def test_a_key_that_cannot_be_restored_is_returned() -> None:
    async with configured() as (cluster, admin):
        cluster.overrides = {SPLIT: "TRUE"}
        former = await disable_balancing(admin, await admin.cluster_balancer())
        cluster.refused = {SPLIT}
        assert [one.key for one in await restore_balancing(admin, former)] == [SPLIT]


async def test_keys_that_a_cancellation_leaves_unrestored_are_printed_with_their_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with configured() as (cluster, admin):
        attached = cast("Attached", SimpleNamespace(admin=admin))

        async def cut_off() -> None:
            async with asyncio.timeout(None) as limit, balancer_disabled(attached):
                cluster.answers.clear()
                limit.reschedule(asyncio.get_running_loop().time() + 0.2)

        with pytest.raises(TimeoutError):
            await cut_off()
        cluster.answers.set()
    errors = capsys.readouterr().err
    for key in (SHEDDING, SPLIT, UNLOAD):
        assert f"{key} was not restored: pulsar-admin brokers delete-dynamic-config" in errors
