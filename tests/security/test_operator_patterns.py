"""Regular expressions of operators that keep the process busy, and texts that clients choose."""

import asyncio
import time

import pytest

from broker_ctl.api.admin.policies import PolicyMatches
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.regular_expressions import MAX_TEXT_LENGTH, compiled, is_match
from broker_ctl.errors import InvalidName
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import CLUSTER, serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S

TEXT = "a" * MAX_TEXT_LENGTH
# Several times what the slowest accepted pattern takes.
LIMIT_S = 0.6
OPTIONAL_PARTS = [
    "a?" * 21 + "[ab]" * 150 + "X",
    "a{0,1}" * 21 + "[ab]" * 150 + "X",
    "(?:a?b?)" * 12 + "[ab]" * 100 + "X",
    "(a|a)" * 21 + "[ab]" * 100 + "X",
]
LONG_TAILS = [
    "[ab]*" * 3 + "[ab]" * 85 + "X",
    "[ab]*" * 3 + "[ab]{85}X",
    "(?i)" + "[ab]*" * 3 + "[ab]" * 40 + "X",
    ".*.*.*(?=[ab]{80}X)b",
    ".*.*.*(?<=X[ab]{80})b",
    ".*.*.*" + "a" * 60 + "X",
    r"\x61" * 40 + ".*.*.*.*" + "X",
    r"(?:\b){200}" + ".*.*.*.*" + "X",
]
BACKREFERENCES = [
    r"(a*)(a*)(a*)\1\2\3X",
    r"(a+)(a+)(a+)\1X",
    r"(?:(a*)\1)*X",
]
ORDINARY = [
    r"[\w.-]+-[\w.-]+-[\w.-]+\.example\.com",
    r".*-.*-.*\.dc1\.prod\.example\.com",
    r"(?i)broker-.*\.eu-[0-9]+\..*\.example\.com",
    r"pulsar-broker-\d+\.pulsar-broker\.[a-z0-9-]+\.svc\.cluster\.local",
    r"ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}\.ec2\.internal",
    r"(broker)-(\d+)\.\1s\.example",
    r"(?!test-)[a-z]+(?<!-old)/.*",
]
# Close to the bound.
EXPENSIVE = [
    "[ab]*[ab]*[ab]*X",
    "(a*)(a*)(a*)X",
    "(?i)[ab]*[ab]*[ab]*[ab]X",
    "a*?a*?a*?[ab]{2}X",
    r"(a*)(a*)\1X",
    "(?:ab?|c){7}X",
    "a?" * 12 + "[ab]" * 150 + "X",
    "(?:a|a){17}X",
    "(?:[ab][ab])*(?:[ab][ab])*(?:[ab][ab])*X",
]


@pytest.mark.parametrize("pattern", OPTIONAL_PARTS + LONG_TAILS + BACKREFERENCES)
def test_a_pattern_with_many_steps_is_refused_or_quick(pattern: str) -> None:
    began_s = time.thread_time()
    assert not is_match(pattern, TEXT)
    assert time.thread_time() - began_s < LIMIT_S
    with pytest.raises(InvalidName, match="may take too long"):
        compiled(pattern)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_patterns_with_a_domain_behind_are_accepted(pattern: str) -> None:
    assert compiled(pattern).pattern == pattern


@pytest.mark.parametrize("pattern", EXPENSIVE)
def test_an_accepted_pattern_matches_the_worst_text_quickly(pattern: str) -> None:
    ready = compiled(pattern)
    began_s = time.thread_time()
    assert ready.fullmatch(TEXT) is None
    assert time.thread_time() - began_s < LIMIT_S


def test_refusing_a_pattern_takes_no_longer_than_a_match() -> None:
    for pattern in ("(?:(?:(?:\\b){255}){255}){255}", "(" * 19 + "a?" * 400 + ")" * 19, "a" * 1024):
        began_s = time.thread_time()
        is_match(pattern, "b")
        assert time.thread_time() - began_s < LIMIT_S


async def test_reads_of_many_expensive_patterns_let_the_event_loop_go_on() -> None:
    # Each takes some milliseconds for the longest text that a client may choose.
    patterns = tuple(f"(?i)(?:[a-]?){{18}}X{number}" for number in range(12))
    policies = Constraints(isolation=(IsolationPolicy("p", ("none/ns",), patterns),))
    matches = PolicyMatches()
    is_over = False
    longest_s = 0.0

    async def tick() -> None:
        nonlocal longest_s
        while not is_over:
            began_s = time.thread_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.thread_time() - began_s)

    began_s = time.thread_time()
    async with asyncio.TaskGroup() as group:
        group.create_task(tick())
        async with asyncio.TaskGroup() as readers:
            for number in range(8):
                readers.create_task(matches.row_of(policies, f"{'a-' * 30}{number}:8080"))
        is_over = True
    took_s = time.thread_time() - began_s
    # One of 96 matches, and some.
    assert longest_s < took_s / 15


async def test_a_client_chooses_only_short_texts_for_operators_patterns() -> None:
    policies = f"/admin/v2/clusters/{CLUSTER}/namespaceIsolationPolicies"
    body = {
        "namespaces": ["t/ns"],
        "primary": [ORDINARY[0]],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }
    async with (
        serving_brokers([free_port(), free_port()]) as (leader, _),
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        url = f"{leader.url}{policies}"
        assert (await http.request("POST", f"{url}/p", json=body)).status == 204
        for text in ("-" * 250, "a-" * 120, f"{'a-' * 40}:8080", "no-port", f"{'-' * 65}:1"):
            reply = await http.request("GET", f"{url}/brokers/{text}")
            assert reply.status == 412, text
            assert "is not alive" in reply.json()["reason"]
        for broker_id in (leader.broker_id, "a-b-c.example.com:8080"):
            reply = await http.request("GET", f"{url}/brokers/{broker_id}")
            assert reply.status == 200
        assert reply.json()["primary"] is True
