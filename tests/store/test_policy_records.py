"""Isolation policies, failure domains and overrides as Pulsar writes them.

Docs: pulsar-paths, pulsar-isolation.
"""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.broker import IsolationPolicy, UnloadScope
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import paths
from broker_ctl.store.records.constraints import (
    DynamicValues,
    FailureDomain,
    NamespaceIsolationPolicies,
)

PATH = "/admin/clusters/c/namespaceIsolationPolicies"
PULSARS: dict[str, Any] = {
    "namespaces": ["tenant/ns.*"],
    "primary": ["broker-1.*"],
    "secondary": ["broker-2.*"],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "80"},
    },
    "unload_scope": "changed",
}
POLICY = IsolationPolicy(
    "policy-1",
    ("tenant/ns.*",),
    ("broker-1.*",),
    ("broker-2.*",),
    min_available=1,
    usage_threshold=80,
    unload_scope=UnloadScope.CHANGED,
)
TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x7E), min_size=1, max_size=8)
POLICIES = st.builds(
    IsolationPolicy,
    name=TEXT,
    namespaces=st.lists(TEXT, max_size=3).map(tuple),
    primary=st.lists(TEXT, max_size=3).map(tuple),
    secondary=st.lists(TEXT, max_size=3).map(tuple),
    min_available=st.integers(0, 100_000),
    usage_threshold=st.integers(0, 100),
    unload_scope=st.none() | st.sampled_from(UnloadScope),
)


def decode(value: Any) -> NamespaceIsolationPolicies:
    return NamespaceIsolationPolicies.decode(PATH, json.dumps(value).encode())


def test_the_nodes_are_where_pulsar_looks_for_them() -> None:
    assert paths.isolation_policies("c") == PATH
    assert paths.failure_domain("c", "r") == "/admin/clusters/c/failureDomain/r"
    assert paths.CONFIGURATION == "/admin/configuration"
    assert paths.POLICIES_READ_ONLY == "/admin/flags/policies-readonly"


def test_pulsars_example_is_read_and_written_back_as_it_was() -> None:
    record = decode({"policy-1": PULSARS})
    assert record.policies == (POLICY,)
    assert json.loads(record.encode()) == {"policy-1": PULSARS}
    written = NamespaceIsolationPolicies().with_policy(POLICY)
    assert json.loads(written.encode()) == {"policy-1": PULSARS}


def test_what_is_absent_has_pulsars_defaults() -> None:
    bare = {"namespaces": ["a/b"], "primary": ["x"], "unload_scope": None}
    assert decode({"p": bare}).policies == (IsolationPolicy("p", ("a/b",), ("x",)),)
    written = NamespaceIsolationPolicies().with_policy(IsolationPolicy("p", ("a/b",), ("x",)))
    assert "unload_scope" not in written.raw["p"]


def test_numbers_are_taken_where_pulsar_writes_texts() -> None:
    parameters = {"min_limit": 3, "usage_threshold": 70}
    failover = {"auto_failover_policy": {"parameters": parameters}}
    [policy] = decode({"p": {**PULSARS, **failover}}).policies
    assert (policy.min_available, policy.usage_threshold) == (3, 70)


def test_fields_of_others_survive_a_change_of_one_policy() -> None:
    failover = {**PULSARS["auto_failover_policy"], "newer": 1}
    failover["parameters"] = {**failover["parameters"], "deeper": "2"}
    foreign = {**PULSARS, "auto_failover_policy": failover, "owner": {"team": "a"}}
    record = decode({"policy-1": foreign, "other": {**PULSARS, "kept": [1]}})
    changed = json.loads(record.with_policy(replace(POLICY, min_available=2)).encode())
    assert changed["policy-1"]["owner"] == {"team": "a"}
    assert changed["policy-1"]["auto_failover_policy"] == {
        "policy_type": "min_available",
        "newer": 1,
        "parameters": {"min_limit": "2", "usage_threshold": "80", "deeper": "2"},
    }
    assert changed["other"] == {**PULSARS, "kept": [1]}


def test_a_scope_ends_with_the_policy_that_had_it() -> None:
    record = decode({"policy-1": PULSARS}).with_policy(replace(POLICY, unload_scope=None))
    assert NamespaceIsolationPolicies.decode(PATH, record.encode()).policies == record.policies


def test_policies_keep_their_order() -> None:
    record = decode(dict.fromkeys(("z", "a", "m"), PULSARS))
    later = record.with_policy(replace(POLICY, name="a")).with_policy(replace(POLICY, name="b"))
    assert [policy.name for policy in later.policies] == list(later.raw) == ["z", "a", "m", "b"]
    assert list(later.without("z").raw) == ["a", "m", "b"]
    assert later.without("z").find("z") is None


@given(st.lists(POLICIES, max_size=4, unique_by=lambda policy: policy.name))
def test_what_was_written_is_read_back(policies: list[IsolationPolicy]) -> None:
    record = NamespaceIsolationPolicies()
    for policy in policies:
        record = record.with_policy(policy)
    assert NamespaceIsolationPolicies.decode(PATH, record.encode()) == record
    assert record.policies == tuple(policies)


def limit(value: object) -> dict[str, Any]:
    return {"auto_failover_policy": {"parameters": {"min_limit": value}}}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"namespaces": "a/b"}, "namespaces"),
        ({"primary": [1]}, "primary"),
        ({"unload_scope": "some"}, "unload_scope"),
        ({"auto_failover_policy": "x"}, "auto_failover_policy"),
        ({"auto_failover_policy": {"policy_type": "max"}}, "policy_type"),
        ({"auto_failover_policy": {"parameters": {"other": {}}}}, "other"),
        ({"auto_failover_policy": {"parameters": {"other": ["1"]}}}, "other"),
        (limit("-1"), "min_limit"),
        (limit("many"), "min_limit"),
        (limit(1.5), "min_limit"),
        (limit("9" * 5000), "min_limit"),
        (limit("\u0663"), "min_limit"),
    ],
)
def test_a_malformed_policy_is_corrupt_and_the_error_names_field_and_path(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(CorruptRecord, match=named) as caught:
        decode({"p": {**PULSARS, **fields}})
    assert PATH in str(caught.value)


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b'{"p": 1}', b"\xff"])
def test_a_payload_that_is_not_a_map_of_objects_is_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptRecord):
        NamespaceIsolationPolicies.decode(PATH, payload)


def test_a_failure_domain_keeps_what_is_not_ours() -> None:
    domain = FailureDomain.decode("/d", b'{"brokers":["b:1","a:1","b:1"],"rack":7}')
    assert domain.brokers == ("b:1", "a:1")
    changed = json.loads(domain.with_brokers(("c:1",)).encode())
    assert changed == {"brokers": ["c:1"], "rack": 7}
    assert FailureDomain.decode("/d", b"{}").brokers == ()
    with pytest.raises(CorruptRecord):
        FailureDomain.decode("/d", b'{"brokers":[1]}')


def test_overrides_are_texts_as_jackson_reads_them() -> None:
    payload = b'{"a":"x","b":true,"c":3,"d":0.5,"e":null}'
    assert DynamicValues.decode("/c", payload).texts == {
        "a": "x",
        "b": "true",
        "c": "3",
        "d": "0.5",
    }
    with pytest.raises(CorruptRecord, match="a"):
        DynamicValues.decode("/c", b'{"a":["x"]}')
    values = DynamicValues({"k": "v"})
    assert DynamicValues.decode("/c", values.encode()) == values
