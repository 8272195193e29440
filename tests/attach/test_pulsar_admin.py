"""The admin API of a Pulsar cluster, against brokers that answer as real ones did."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property

import pytest
from aiohttp import web

from broker_ctl.attach.admin import PulsarAdmin
from broker_ctl.core.model.names import Bundle, Topic
from broker_ctl.errors import PeerError, PeerRefused, PeerUnreachable
from broker_ctl.http_client import HttpClient
from tests.support.http.certificates import serving_context, trusting_context
from tests.support.http.web_server import free_port, serving
from tests.support.pulsar.recorded import (
    ASKED,
    LEADER,
    OTHER,
    RecordedBroker,
    RecordedCluster,
    recorded_cluster,
)
from tests.support.time.waiting import PATIENCE_S

TOKEN = "of-a-super-user"
BUNDLE = Bundle.parse("public/default/0x20000000_0x30000000")
UNLOAD = "/admin/v2/namespaces/public/default/0x20000000_0x30000000/unload"
SPLIT = "/admin/v2/namespaces/public/default/0x40000000_0x50000000/split"


@dataclass
class Scene:
    cluster: RecordedCluster
    http: HttpClient

    @cached_property
    def admin(self) -> PulsarAdmin:
        return self.asking(self.cluster.urls[ASKED])

    def broker(self, name: str) -> RecordedBroker:
        return self.cluster.brokers[name]

    def asking(self, *urls: str, act_timeout_s: float = 5) -> PulsarAdmin:
        return PulsarAdmin(urls, self.http, self.cluster.known, act_timeout_s=act_timeout_s)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with (
        recorded_cluster() as cluster,
        HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        yield Scene(cluster, http)


def unloaded(request: web.Request) -> web.Response | None:
    return web.Response(status=204) if request.method == "PUT" else None


async def test_questions_are_answered_as_the_cluster_sees_it(scene: Scene) -> None:
    admin = scene.admin
    assert await admin.brokers() == (ASKED, OTHER, LEADER)
    assert await admin.leader() == f"http://{LEADER}"
    assert await admin.bundle_of(Topic.parse("non-persistent://public/default/x1")) == BUNDLE
    assert (await admin.ask("broker-stats/load-report", OTHER)).json()[
        "loadReportType"
    ] == "LocalBrokerData"
    assert await admin.overrides() == {
        "loadBalancerLoadSheddingStrategy": (
            "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"
        )
    }
    assert "loadBalancerSheddingEnabled" in await admin.dynamic_names()
    assert "loadBalancerEnabled" not in await admin.dynamic_names()


async def test_a_listed_name_that_is_not_host_and_port_is_left_out(scene: Scene) -> None:
    listed = ["-oProxyCommand=x #:8080", "b:1", "../x:1", "$(x):1"]
    scene.broker(ASKED).live = lambda _: web.json_response(listed)
    assert await scene.admin.brokers() == ("b:1",)
    assert scene.admin.corrupt == 3


async def test_what_a_broker_runs_with_is_read_without_its_passwords(scene: Scene) -> None:
    assert await scene.admin.running(OTHER) == {
        "loadBalancerEnabled": "true",
        "loadBalancerSheddingEnabled": "true",
        "loadBalancerAutoBundleSplitEnabled": "true",
        "loadBalancerAutoUnloadSplitBundlesEnabled": "true",
        "loadManagerClassName": (
            "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
        ),
    }


async def test_an_address_that_is_down_is_replaced_by_the_next_one(scene: Scene) -> None:
    down = f"http://127.0.0.1:{free_port()}"
    scene.broker(OTHER).live = unloaded
    await scene.asking(down, scene.cluster.urls[OTHER]).unload(BUNDLE, OTHER)
    assert len(scene.broker(OTHER).orders()) == 1
    assert await scene.asking(down, scene.cluster.urls[OTHER]).brokers() == (ASKED, OTHER, LEADER)


async def test_when_no_address_answers_the_error_names_each_of_them(scene: Scene) -> None:
    ports = [free_port(), free_port()]
    admin = scene.asking(*(f"http://127.0.0.1:{port}" for port in ports))
    with pytest.raises(PeerUnreachable) as caught:
        await admin.brokers()
    assert all(f":{port}" in str(caught.value) for port in ports)


async def test_an_unload_goes_to_the_leader_with_destination_and_token(scene: Scene) -> None:
    scene.broker(LEADER).live = unloaded
    await scene.admin.unload(BUNDLE, OTHER)
    query = "destinationBroker=127.0.0.1:23191"
    assert scene.broker(ASKED).orders() == [f"PUT {UNLOAD}?{query}"]
    assert scene.broker(LEADER).orders() == [f"PUT {UNLOAD}?{query}&authoritative=false"]
    assert {authorization for *_, authorization in scene.broker(LEADER).seen} == {f"Bearer {TOKEN}"}


async def test_a_split_takes_its_boundaries_along_to_the_owner(scene: Scene) -> None:
    scene.broker(LEADER).live = unloaded
    bundle = Bundle.parse("public/default/0x40000000_0x50000000")
    await scene.admin.split(bundle, "range_equally_divide", ())
    query = "unload=false&splitAlgorithmName=range_equally_divide"
    assert scene.broker(ASKED).orders() == [f"PUT {SPLIT}?{query}"]
    (order,) = scene.broker(LEADER).seen
    assert order[:3] == ("PUT", f"{SPLIT}?authoritative=false&{query}", "")
    scene.broker(ASKED).live = unloaded
    await scene.admin.split(bundle, "specified_positions_divide", (0x48000000, 0x4C000000))
    assert scene.broker(ASKED).seen[-1][2] == f"[{0x48000000},{0x4C000000}]"


async def test_redirects_out_of_the_cluster_are_refused(scene: Scene) -> None:
    elsewhere = f"http://127.0.0.1:{free_port()}/admin/v2/clusters"
    scene.broker(ASKED).live = lambda _: web.Response(status=307, headers={"Location": elsewhere})
    with pytest.raises(PeerRefused, match=f"sends on to {elsewhere}, which is not a broker"):
        await scene.admin.brokers()
    # A broker that has left the registry is a stranger, too.
    scene.broker(ASKED).live = lambda _: None
    del scene.cluster.urls[LEADER]
    with pytest.raises(PeerRefused, match="which is not a broker of the cluster"):
        await scene.admin.unload(BUNDLE, OTHER)


@pytest.mark.parametrize("location", ["", "ftp://a", "http://[", "http://a:port/", "//b:8080/"])
async def test_a_redirect_to_nowhere_is_refused(scene: Scene, location: str) -> None:
    scene.cluster.urls["spoilt"] = "http://a:port"
    scene.broker(ASKED).live = lambda _: web.Response(status=307, headers={"Location": location})
    with pytest.raises(PeerRefused, match=r"which is not a broker|sent on 8 times"):
        await scene.admin.brokers()


async def test_a_redirect_may_leave_the_usual_port_out(scene: Scene) -> None:
    scene.cluster.urls["usual"] = "http://127.0.0.1:80"
    scene.broker(ASKED).live = lambda _: web.Response(
        status=307, headers={"Location": "http://127.0.0.1/admin/v2/brokers"}
    )
    # The redirect is followed: only the connection to that port fails.
    with pytest.raises(PeerError) as caught:
        await scene.admin.brokers()
    assert "which is not a broker" not in str(caught.value)


async def test_a_redirect_from_tls_to_plain_http_is_refused(scene: Scene) -> None:
    async def send_on(_: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": f"{scene.cluster.urls[OTHER]}/x"})

    app = web.Application()
    app.router.add_get("/admin/v2/brokers", send_on)
    async with (
        serving(app, ssl=serving_context()) as url,
        HttpClient(
            token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20, ssl=trusting_context()
        ) as http,
    ):
        admin = PulsarAdmin((url, scene.cluster.urls[OTHER]), http, dict, act_timeout_s=5)
        with pytest.raises(PeerRefused, match=r"sends on to .*, without TLS"):
            await admin.brokers()
    assert scene.broker(OTHER).seen == []


async def test_brokers_that_send_in_circles_are_left(scene: Scene) -> None:
    here = f"{scene.cluster.urls[ASKED]}/admin/v2/brokers"
    scene.broker(ASKED).live = lambda _: web.Response(status=307, headers={"Location": here})
    with pytest.raises(PeerRefused, match="sent on 8 times"):
        await scene.admin.brokers()


@pytest.mark.parametrize(
    ("destination", "bundle", "kind", "reason"),
    [
        (
            "127.0.0.1:9999",
            "0x20000000_0x30000000",
            "Conflict",
            "Not allowed unload namespace bundle to inactive destination broker",
        ),
        (
            OTHER,
            "0x00000000_0x20000000",
            "PreconditionFailed",
            (
                "Invalid upper boundary for bundle public/default/0x00000000_0x20000000. Expected "
                "upper boundary of public/default/0x00000000_0x10000000"
            ),
        ),
    ],
)
async def test_a_refusal_says_what_pulsar_says(
    scene: Scene, destination: str, bundle: str, kind: str, reason: str
) -> None:
    with pytest.raises(PeerRefused) as caught:
        await scene.admin.unload(Bundle.parse(f"public/default/{bundle}"), destination)
    assert caught.value.kind == kind
    assert caught.value.reason.endswith(f": {reason}")


async def test_a_token_without_permission_is_refused_and_not_printed(scene: Scene) -> None:
    scene.broker(ASKED).live = lambda _: web.Response(
        status=401, text="<html>no JSON</html>", content_type="text/html"
    )
    with pytest.raises(PeerRefused) as caught:
        await scene.admin.brokers()
    assert caught.value.kind == "Unauthorized"
    assert TOKEN not in str(caught.value)


async def test_a_stack_trace_is_cut_down_to_its_message(scene: Scene) -> None:
    with pytest.raises(PeerUnreachable) as caught:
        await scene.admin.health(OTHER)
    assert str(caught.value) == (
        f"GET brokers/health at {scene.cluster.urls[OTHER][7:]}: org.apache.bookkeeper.mledger."
        "ManagedLedgerException: Not enough non-faulty bookies available error code: -6"
    )


async def test_a_stack_trace_without_a_message_says_what_was_thrown(scene: Scene) -> None:
    reason = (
        "\n --- An unexpected error occurred in the server ---\n\nMessage: null\n\nStacktrace:\n\n"
        "java.lang.UnsupportedOperationException\n\tat org.apache.pulsar.broker.X.y(X.java:121)\n"
    )
    scene.broker(OTHER).live = lambda _: web.json_response({"reason": reason}, status=500)
    with pytest.raises(PeerUnreachable, match=r": java\.lang\.UnsupportedOperationException$"):
        await scene.admin.ask("broker-stats/load-report", OTHER)


async def test_an_order_that_failed_half_way_is_not_given_again(scene: Scene) -> None:
    def fails(request: web.Request) -> web.Response | None:
        if request.method == "GET":
            return None
        return web.json_response({"reason": "service unit is not ready"}, status=500)

    scene.broker(ASKED).live = fails
    admin = scene.asking(scene.cluster.urls[ASKED], scene.cluster.urls[OTHER])
    with pytest.raises(PeerUnreachable, match="service unit is not ready"):
        await admin.unload(BUNDLE, OTHER)
    assert (len(scene.broker(ASKED).orders()), scene.broker(OTHER).orders()) == (1, [])


async def test_an_order_without_an_answer_is_open_after_its_own_deadline(scene: Scene) -> None:
    asked = scene.broker(ASKED)

    async def silent(request: web.Request) -> web.StreamResponse:
        if request.method == "PUT":
            await asyncio.sleep(60)
        return await RecordedBroker.answer(asked, request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", silent)
    async with serving(app) as url:
        admin = scene.asking(url, scene.cluster.urls[OTHER], act_timeout_s=0.2)
        with pytest.raises(PeerUnreachable, match=r"no answer within 0\.2 s"):
            await admin.unload(BUNDLE, OTHER)
    assert scene.broker(OTHER).orders() == []


@pytest.mark.parametrize("body", ["", "{}", "[1]", "null", "<html>"])
async def test_an_answer_that_makes_no_sense_is_a_refusal(scene: Scene, body: str) -> None:
    scene.broker(ASKED).live = lambda _: web.Response(text=body)
    with pytest.raises(PeerRefused, match="MalformedAnswer"):
        await scene.admin.brokers()
    with pytest.raises(PeerRefused, match="MalformedAnswer"):
        await scene.admin.leader()


async def test_a_cluster_without_a_leader_is_answered_with_none(scene: Scene) -> None:
    scene.broker(ASKED).live = lambda _: web.json_response(
        {"reason": "Couldn't find leader broker"}, status=404
    )
    assert await scene.admin.leader() is None


async def test_all_brokers_are_asked_for_their_own_balancing(scene: Scene) -> None:
    found = await scene.admin.cluster_balancer()
    assert [(one.key, one.brokers) for one in found] == [
        ("loadBalancerSheddingEnabled", (ASKED, OTHER, LEADER)),
        ("loadBalancerAutoBundleSplitEnabled", (ASKED, OTHER, LEADER)),
        ("loadBalancerAutoUnloadSplitBundlesEnabled", (ASKED, OTHER, LEADER)),
    ]
    assert all(one.is_dynamic for one in found)


async def test_while_a_broker_is_unreachable_the_cluster_balancer_is_not_known(
    scene: Scene,
) -> None:
    scene.cluster.urls[LEADER] = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PeerUnreachable, match="what brokers run with is not known"):
        await scene.admin.cluster_balancer()
    scene.cluster.urls.clear()
    with pytest.raises(PeerUnreachable, match="no broker is registered"):
        await scene.admin.cluster_balancer()
