"""What HTTP clients send: bodies that are read as JSON, and headers that prove something."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from broker_ctl.api.http import partition_params as params
from broker_ctl.broker.policies.constraints import parse_policy
from broker_ctl.broker.policies.policies import parse_quota
from broker_ctl.codec import decode_object
from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.core.model.broker import AllowedHosts, WebAddress, web_address_host_of
from broker_ctl.core.model.commands import parse_order
from broker_ctl.core.model.field_kinds import CLUSTER_DATA, NAMESPACE_POLICIES, misfit
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.errors import BrokerCtlError
from broker_ctl.security.authentication import Evidence
from broker_ctl.security.signed_requests import RequestSignature, SignatureRefused
from broker_ctl.security.static_tokens import StaticTokens

_VERBS: Final = ("prepare", "release", "receive", "acquire", "split", "merge", "none")
_READERS: Final[Sequence[Callable[[Mapping[str, Any]], object]]] = (
    *(partial(parse_order, verb) for verb in _VERBS),
    PlanFile.of_row,
    Instruction.parse,
    partial(misfit, kinds=NAMESPACE_POLICIES),
    partial(parse_policy, "policy"),
    parse_quota,
    params.rules_in,
    params.changes_in,
    params.topic_id_in,
    params.replicas_in,
    params.partitions_in,
    params.targets_in,
    params.names_in,
    params.brokers_in,
    params.election_in,
    partial(misfit, kinds=CLUSTER_DATA),
)
_TOKENS: Final = StaticTokens.parse("app:a-secret-of-the-app\n")


def bodies(data: bytes) -> None:
    """The first byte is what the body is for; whatever is wrong with it is an error of ours."""
    if not data:
        return
    with suppress(BrokerCtlError):
        _READERS[data[0] % len(_READERS)](decode_object(data[1:]))


def headers(data: bytes) -> None:
    """Signatures of brokers, tokens, and names of hosts."""
    text = data.decode(errors="surrogateescape")
    try:
        found = RequestSignature.parse(text)
    except SignatureRefused:
        pass
    else:
        found.message("GET", "/a")
        found.covers(b"")
    assert _TOKENS.authenticate(Evidence(data)) is None or data == b"a-secret-of-the-app"
    try:
        address = WebAddress.parse(text)
    except ValueError:
        pass
    else:
        assert address.host
    AllowedHosts.parse([text, ".example.com"]).allows(web_address_host_of(text))
