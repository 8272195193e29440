"""A cluster's isolation policies, failure domains and dynamic configuration.

Docs: pulsar-paths, pulsar-isolation. Unknown fields are preserved: a rewrite of one policy leaves
the others as they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from broker_ctl.codec import encode
from broker_ctl.core.model.broker import IsolationPolicy, UnloadScope
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.policies import other_fields

_MIN_AVAILABLE: Final = "min_available"
_HIGHEST_PERCENT: Final = 100
_MOST_BROKERS: Final = 100_000


def decode_policy(name: str, fields: Fields) -> IsolationPolicy:
    """One isolation policy.

    Raises:
        CorruptRecord: it does not fit.
    """
    failover = fields.child("auto_failover_policy")
    kind = failover.text("policy_type", _MIN_AVAILABLE)
    if kind != _MIN_AVAILABLE:
        raise failover.corrupt("policy_type", f"{kind!r} is not known, only {_MIN_AVAILABLE}")
    parameters = failover.child("parameters")
    for parameter, value in parameters.values.items():
        # As Jackson reads a map of texts: numbers and switches count as theirs.
        if isinstance(value, dict | list):
            raise parameters.corrupt(parameter, f"cannot be a {type(value).__name__}")
    scope = fields.optional_text("unload_scope")
    scopes = {known.value: known for known in UnloadScope}
    if scope is not None and scope not in scopes:
        raise fields.corrupt("unload_scope", f"{scope!r} is none of {', '.join(scopes)}")
    return IsolationPolicy(
        name,
        fields.texts("namespaces"),
        fields.texts("primary"),
        fields.texts("secondary"),
        _parameter(parameters, "min_limit", 1, _MOST_BROKERS),
        _parameter(parameters, "usage_threshold", _HIGHEST_PERCENT, _HIGHEST_PERCENT),
        None if scope is None else scopes[scope],
    )


def _parameter(fields: Fields, name: str, default: int, at_most: int) -> int:
    """A whole number, which Pulsar writes as a text."""
    value = fields.values.get(name)
    if value is None:
        return default
    text = str(value)
    # Longer texts are out of range in any case, and slow to parse.
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= at_most):
        raise fields.corrupt(name, f"must be a whole number from 0 to {at_most}")
    return int(text)


def encode_policy(policy: IsolationPolicy, raw: Mapping[str, Any]) -> dict[str, Any]:
    """A policy's object, in place of ``raw``, whose other fields stay."""
    failover = raw.get("auto_failover_policy") or {}
    parameters = {
        **(failover.get("parameters") or {}),
        "min_limit": str(policy.min_available),
        "usage_threshold": str(policy.usage_threshold),
    }
    fields = {
        **raw,
        "namespaces": list(policy.namespaces),
        "primary": list(policy.primary),
        "secondary": list(policy.secondary),
        "auto_failover_policy": {
            **failover,
            "policy_type": _MIN_AVAILABLE,
            "parameters": parameters,
        },
    }
    fields.pop("unload_scope", None)
    if policy.unload_scope is not None:
        fields["unload_scope"] = policy.unload_scope.value
    return fields


@dataclass(frozen=True, slots=True)
class NamespaceIsolationPolicies:
    """All of a cluster's isolation policies, in the order of the node.

    Attributes:
        raw: each policy's object as it was read, by name.
    """

    policies: tuple[IsolationPolicy, ...] = ()
    raw: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        children = Fields.of(path, data).children()
        policies = tuple(decode_policy(name, fields) for name, fields in children.items())
        return cls(policies, {name: fields.values for name, fields in children.items()})

    def encode(self) -> bytes:
        """The payload."""
        return encode(self.raw)

    def find(self, name: str) -> IsolationPolicy | None:
        """The policy of this name."""
        return next((policy for policy in self.policies if policy.name == name), None)

    def with_policy(self, policy: IsolationPolicy) -> "NamespaceIsolationPolicies":
        """The policies with ``policy`` in place of the one of the same name, or at the end."""
        by_name = {known.name: known for known in self.policies} | {policy.name: policy}
        raw = encode_policy(policy, self.raw.get(policy.name, {}))
        return NamespaceIsolationPolicies(tuple(by_name.values()), {**self.raw, policy.name: raw})

    def without(self, name: str) -> "NamespaceIsolationPolicies":
        """The policies without the one of this name."""
        policies = tuple(policy for policy in self.policies if policy.name != name)
        return NamespaceIsolationPolicies(
            policies, {known: raw for known, raw in self.raw.items() if known != name}
        )


@dataclass(frozen=True, slots=True)
class FailureDomain:
    """The brokers of one failure domain, by id."""

    brokers: tuple[str, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        brokers = tuple(dict.fromkeys(fields.texts("brokers")))
        return cls(brokers, other_fields(fields, frozenset({"brokers"})))

    def encode(self) -> bytes:
        """The payload."""
        return encode({"brokers": list(self.brokers), **self.others})

    def with_brokers(self, brokers: tuple[str, ...]) -> "FailureDomain":
        """The same domain of other brokers."""
        return replace(self, brokers=brokers)


@dataclass(frozen=True, slots=True)
class DynamicValues:
    """Overrides of settings, as texts by key."""

    texts: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        """Read a payload; numbers and switches count as their texts, as Jackson reads them.

        Raises:
            CorruptRecord: it does not fit.
        """
        fields = Fields.of(path, data)
        texts: dict[str, str] = {}
        for key, value in fields.values.items():
            match value:
                case None:
                    continue
                case bool():
                    texts[key] = "true" if value else "false"
                case str() | int() | float():
                    texts[key] = str(value)
                case _:
                    raise fields.corrupt(key, f"cannot be a {type(value).__name__}")
        return cls(texts)

    def encode(self) -> bytes:
        """The payload."""
        return encode(self.texts)
