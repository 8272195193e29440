"""Attacks by single requests over HTTP."""

import re
from typing import Final

from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.security.audit.log import SUM_S
from tests.security.attacks.scene import Outcome, Scene, command
from tests.support.daemon.running_daemons import NAMESPACE
from tests.support.time.waiting import eventually

_EVIL: Final = "https://evil.example"
_POLICIES: Final = "/admin/v2/clusters/attacked/namespaceIsolationPolicies"
_FAILOVER: Final = {
    "policy_type": "min_available",
    "parameters": {"min_limit": "1", "usage_threshold": "100"},
}
# Fewer than those after which answers are delayed.
_TRIES: Final = 6


async def reads_without_a_token(scene: Scene) -> Outcome:
    """Where authentication is on, a stranger reads brokers and their addresses."""
    return Outcome.of_status(
        await scene.ask(scene.stranger, "GET", "/admin/v2/brokers/attacked"), 200
    )


async def metrics_without_a_token(scene: Scene) -> Outcome:
    """Although authenticateMetricsEndpoint says otherwise."""
    return Outcome.of_status(await scene.ask(scene.stranger, "GET", "/metrics"), 200)


async def authoritative_lookup_past_a_policy(scene: Scene) -> Outcome:
    """Bring a bundle to a broker that an isolation policy excludes."""
    body = {
        "namespaces": [NAMESPACE],
        "primary": ["some-other-host"],
        "auto_failover_policy": _FAILOVER,
    }
    made = await scene.ask(scene.operator, "POST", f"{_POLICIES}/elsewhere", json=body)
    assert made.status == 204, made.body
    path = f"/lookup/v2/topic/persistent/{NAMESPACE}/isolated"

    async def is_excluded() -> bool:
        return (await scene.ask(scene.operator, "GET", path)).status == 503

    await eventually(is_excluded, what="the policy")
    reply = await scene.ask(scene.operator, "GET", f"{path}?authoritative=true")
    removed = await scene.ask(scene.operator, "DELETE", f"{_POLICIES}/elsewhere")
    assert removed.status == 204, removed.body
    return Outcome.of_status(reply, 200)


async def pattern_of_many_steps(scene: Scene) -> Outcome:
    """Have all brokers match a regular expression that takes seconds."""
    body = {
        "namespaces": ["public/none"],
        "primary": ["a?" * 21 + "[ab]" * 150 + "X"],
        "auto_failover_policy": _FAILOVER,
    }
    return Outcome.of_status(
        await scene.ask(scene.operator, "POST", f"{_POLICIES}/slow", json=body), 204
    )


async def wrong_tokens_without_a_trace(scene: Scene) -> Outcome:
    """Guess tokens, and leave no line in the log."""
    before = scene.log_of(scene.guarded)
    # Attacks before this one may have used up what an address may guess: the answer is 429 then.
    statuses = set()
    for number in range(_TRIES):
        headers = {"Authorization": f"Bearer guess-{number}"}
        reply = await scene.ask(scene.stranger, "GET", "/control/v1/status", headers=headers)
        assert reply.status in {401, 429}, reply.body
        statuses.add(str(reply.status))

    def trace() -> bool:
        lines = scene.log_of(scene.guarded)[len(before) :].splitlines()
        return any(status in line for line in lines for status in statuses)

    # An address that was refused often in this minute has sums in place of lines.
    try:
        await eventually(trace, 2 * SUM_S)
    except AssertionError:
        return Outcome(succeeds=True, seen="no line of the log")
    return Outcome(succeeds=False, seen="lines of the log")


async def change_by_a_page_of_another_site(scene: Scene) -> Outcome:
    """A page that a user of the machine has open changes a setting of the whole cluster."""
    url = f"{scene.open_one.url}/admin/v2/brokers/configuration/maxConcurrentLookupRequest/60000"
    headers = {"Origin": _EVIL, "Sec-Fetch-Site": "cross-site"}
    return Outcome.of_status(await scene.ask(scene.stranger, "POST", url, headers=headers), 204)


async def read_by_a_rebound_name(scene: Scene) -> Outcome:
    """A foreign name that points at the daemon gives a page every verb."""
    url = f"{scene.open_one.url}/admin/v2/brokers/open"
    headers = {"Host": "evil.example"}
    return Outcome.of_status(await scene.ask(scene.stranger, "GET", url, headers=headers), 200)


async def software_in_each_response(scene: Scene) -> Outcome:
    """Learn what to attack."""
    named = {}
    for path in ("/livez", "/control/v1/stacks", "/metrics", "/nothing"):
        headers = (await scene.ask(scene.operator, "GET", path)).headers
        if "Server" in headers or headers.get("X-Content-Type-Options") != "nosniff":
            named[path] = headers.get("Server", "without nosniff")
    return Outcome(bool(named), str(named) if named else "none says it")


async def lookup_by_a_page_of_another_site(scene: Scene) -> Outcome:
    """A page that a user of the machine has open gives a bundle an owner."""
    base = scene.open_one.url
    made = await scene.ask(
        scene.stranger,
        "PUT",
        f"{base}/admin/v2/namespaces/public/quiet",
        json={"bundles": {"numBundles": 4}},
    )
    assert made.status in {204, 409}, made.body
    headers = {"Origin": _EVIL, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    url = f"{base}/lookup/v2/topic/persistent/public/quiet/x"
    reply = await scene.ask(scene.stranger, "GET", url, headers=headers)
    owners = f"{base}/control/v1/owners?namespace=public/quiet"
    rows = (await scene.ask(scene.stranger, "GET", owners)).json()
    owned = sum(bool(row["owner"]) for row in rows)
    return Outcome(owned > 0, f"{reply.status}, {owned} bundles have an owner")


def _partitions(daemon: DaemonProcess, name: str) -> str:
    return f"{daemon.url}/admin/v2/persistent/{NAMESPACE}/{name}/partitions"


async def line_forged_in_the_log(scene: Scene) -> Outcome:
    """A topic's name ends a line of the log, and begins another."""
    url = _partitions(scene.open_one, "x%0A2026-11-22%20session%201:%20expired%20(forged)")
    reply = await scene.ask(scene.stranger, "PUT", url, json=2)
    forged = re.search(r"^2026-11-22 session 1", scene.log_of(scene.open_one), re.MULTILINE)
    return Outcome(
        forged is not None, f"{reply.status}, the line is {'' if forged else 'not '}there"
    )


async def escape_in_a_terminal(scene: Scene) -> Outcome:
    """A topic's name writes the title of an operator's terminal."""
    await scene.ask(scene.stranger, "PUT", _partitions(scene.open_one, "%1B%5D0;pwned%07"), json=2)
    _, output = await command(
        "topics", "list-partitioned-topics", NAMESPACE, "--url", scene.open_one.url
    )
    return Outcome(b"\x1b]0;pwned" in output, "an escape" if b"\x1b]0" in output else "none")
