"""The pages of the console over HTTP, at the leader and elsewhere."""

from typing import Final
from urllib.parse import quote

from broker_ctl.api.http.access.route_rules import ROUTE_RULES, Exempt
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.console.render import assets
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.machines.session import SessionState
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import CLUSTER, TOKEN, Broker, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.security.static_tokens import admitting
from tests.support.time.waiting import PATIENCE_S

SECURED: Final = ApiRules(CLUSTER, **admitting(f"admin:{TOKEN}", {"admin"}))


async def shown(http: HttpClient, broker: Broker, path: str = "/ui/") -> str:
    reply = await http.request("GET", broker.url + path)
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_every_daemon_shows_the_view_of_the_leader_and_names_it(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    for broker in (leader, follower):
        page = " ".join((await shown(http, broker)).split())
        assert (
            f'View of leader <a href="/ui/brokers/{quote(leader.broker_id)}">{leader.broker_id}</a>'
            in page
        )
        name = follower.broker_id
        through = f'asked through <a href="/ui/brokers/{quote(name)}">{name}</a>'
        assert (through in page) == (broker is follower)
        assert "Uneven: the fullest broker has 1.25 times the mean usage" in page


async def test_an_old_view_is_not_taken_for_the_present(http: HttpClient, leader: Broker) -> None:
    assert "Stale: do not take it for the present" in await shown(http, leader)


async def test_without_a_leader_the_page_says_so(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    leader.world.leader_id = None
    page = await shown(http, follower)
    assert "No leader can be asked" in page
    assert "this page is of" in page


async def test_without_a_leader_what_is_paused_can_be_resumed(
    http: HttpClient, leader: Broker, follower: Broker
) -> None:
    """The pause is in ZooKeeper: nobody has to be asked for it."""
    leader.world.leader_id = None
    assert "Pause the balancer" in await shown(http, follower)
    order = AuditInfo.of(1, "operator", "")
    await follower.dependencies.balancer.directives.begin_pause(order)
    page = await shown(http, follower)
    assert "Resume the balancer" in page
    assert "Pause the balancer" not in page


async def test_without_zookeeper_the_page_names_its_servers_and_offers_nothing_that_needs_it(
    http: HttpClient,
) -> None:
    rules = ApiRules(CLUSTER, zookeeper="zk1:2181,zk2:2181")
    async with serving_brokers([free_port()], rules) as [broker]:
        assert "zookeeper status" not in await shown(http, broker)
        broker.session_state = SessionState.LOST
        page = await shown(http, broker)
        assert f"The ZooKeeper session of {broker.broker_id} is lost." in page
        assert "broker-ctl zookeeper status zk1:2181,zk2:2181" in page
        assert "Pause the balancer" not in page
        assert "cannot be paused or resumed without ZooKeeper" in page


async def test_every_page_and_file_is_under_the_strict_policy(
    http: HttpClient, leader: Broker
) -> None:
    files = [f"/ui/static/{asset.name}" for asset in assets().values()]
    for path in ("/ui/", "/ui/glossary", *files):
        reply = await http.request("GET", leader.url + path)
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        kept = reply.headers["Cache-Control"]
        assert kept == ("public, max-age=31536000, immutable" if path in files else "no-store")
        if path not in files:
            body = reply.body.decode()
            assert "<style" not in body
            assert " style=" not in body
            assert "<script>" not in body


async def test_a_file_that_the_console_does_not_have_is_not_found(
    http: HttpClient, leader: Broker
) -> None:
    for name in ("console.css", "..%2Frender.py", "x"):
        reply = await http.request("GET", f"{leader.url}/ui/static/{name}")
        assert reply.status == 404


async def test_the_address_without_a_slash_leads_to_the_console(
    http: HttpClient, leader: Broker
) -> None:
    reply = await http.request("GET", f"{leader.url}/ui")
    assert (reply.status, reply.headers["Location"]) == (308, "/ui/")


async def test_a_console_that_is_off_has_no_routes(http: HttpClient) -> None:
    async with serving_brokers([free_port()], ApiRules(CLUSTER, has_console=False)) as [broker]:
        for method, path in ROUTE_RULES:
            if ROUTE_RULES[method, path] is Exempt.CONSOLE:
                reply = await http.request(method, broker.url + path)
                assert reply.status == 404, path


async def test_a_stranger_is_asked_to_sign_in_and_sees_nothing(http: HttpClient) -> None:
    async with serving_brokers([free_port()], SECURED) as [broker]:
        reply = await http.request("GET", f"{broker.url}/ui/")
        assert reply.status == 401
        assert b"Sign in" in reply.body
        assert b"times the mean usage" not in reply.body


async def test_the_leader_judges_the_client_by_its_own_token() -> None:
    """The daemons have none here: what the follower shows, the client's token has opened."""
    async with (
        serving_brokers([free_port(), free_port()], SECURED) as (leader, follower),
        HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        page = await shown(http, follower)
        assert (
            f'View of leader <a href="/ui/brokers/{quote(leader.broker_id)}">{leader.broker_id}</a>'
            in page
        )


async def test_a_token_goes_to_no_broker_that_does_not_prove_itself() -> None:
    """A writer to ZooKeeper can name a leader, and an address of its own for it."""
    async with (
        serving_brokers([free_port(), free_port()], SECURED) as (leader, follower),
        HttpClient(token=TOKEN, timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        follower.world.proven.clear()
        reply = await http.request("GET", f"{follower.url}/ui/")
        text = reply.body.decode()
        assert f"The leader cannot be asked from here: broker {leader.broker_id}" in text
        assert "only to brokers that prove themselves" in text
        counted = await http.request("GET", f"{leader.url}/metrics")
        assert b"/control/v1" not in counted.body
