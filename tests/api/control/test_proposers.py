"""Who is the proposer of a plan, over HTTP: who has proposed it, and nobody who has seen it."""

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.errors import DualAuthorizationRequired
from broker_ctl.http_client import HttpClient, HttpReply
from broker_ctl.security.authentication import Authenticator
from broker_ctl.security.authorization import AuthorizationPolicy, ClusterRoles
from broker_ctl.security.static_tokens import StaticTokens
from tests.support.clusters.fake_services import CLUSTER, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S

ROLES = ("admin", "operator", "viewer")
SECRETS = {role: f"0123456789abcdef-{role}" for role in ROLES}
LINES = "\n".join(f"{role}:{secret}" for role, secret in SECRETS.items())
RULES = ApiRules(
    CLUSTER,
    authenticator=Authenticator([StaticTokens.parse(LINES)]),
    policy=AuthorizationPolicy(
        ClusterRoles(frozenset({"admin"}), frozenset({"operator"}), frozenset({"viewer"}))
    ),
)
PLAN = "0123456789ab"


async def send(role: str, method: str, url: str) -> HttpReply:
    async with HttpClient(
        token=SECRETS[role], timeout_s=PATIENCE_S, max_body_bytes=1 << 20
    ) as client:
        return await client.request(method, url)


async def test_nobody_proposes_by_looking_and_a_viewer_never() -> None:
    async with serving_brokers([free_port()], RULES) as [leader]:
        url = f"{leader.url}/control/v1"
        for role in ROLES:
            for path in ("plan", "plan?heal_policies=true", f"plans/{PLAN}", "plans"):
                assert (await send(role, "GET", f"{url}/{path}")).status == 200
            assert (await send(role, "GET", f"{url}/proposals")).json() == []
        assert (await send("viewer", "POST", f"{url}/plans/{PLAN}")).status == 403
        dry = await send("operator", "POST", f"{url}/plans/{PLAN}?dry_run=true&by=mallory")
        assert dry.json()["proposed_by"] == "operator"
        assert (await send("viewer", "GET", f"{url}/proposals")).json() == []
        made = await send("operator", "POST", f"{url}/plans/{PLAN}?by=mallory")
        assert (made.json()["id"], made.json()["proposed_by"]) == (PLAN, "operator")
        [waiting] = (await send("viewer", "GET", f"{url}/proposals")).json()
        assert waiting == made.json()


async def test_the_lack_of_a_second_person_is_an_error_of_rights() -> None:
    async with serving_brokers([free_port()], RULES) as [leader]:
        leader.admin.operations.refuse = DualAuthorizationRequired("admin has proposed this plan")
        reply = await send("admin", "PUT", f"{leader.url}/control/v1/plans/{PLAN}")
        assert (reply.status, reply.json()["error"]) == (403, "DualAuthorizationRequired")
        assert "admin has proposed" in reply.json()["reason"]
