"""The page of formats says what the code writes, and what it does with what it does not know."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from broker_ctl.api.binary.replies import PROTOCOL_VERSION
from broker_ctl.api.openapi.declared import DECLARED
from broker_ctl.clock import SystemClock
from broker_ctl.codec import decode_object, encode
from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.core.history.columns import ColumnType
from broker_ctl.core.history.row_kinds import KINDS, SESSION_EVENTS, Stamp, line_of, parse_line
from broker_ctl.core.model.commands import AcquireBundle, parse_order
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.partitions.instructions import Instruction
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr, TopicAssignment
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import BrokerCtlError
from broker_ctl.security.audit.event import ChainLink, read_link
from broker_ctl.security.cluster_key import ClusterKeys
from broker_ctl.security.placement_proofs import PlacementProofs, ProofFailure
from broker_ctl.security.signed_requests import RequestSignature, SignatureRefused
from broker_ctl.store.in_process.keeper import StateImage
from broker_ctl.store.interface import Stat, Versioned
from broker_ctl.store.records.broker_ctl import LeadEpoch
from broker_ctl.store.records.partitions import (
    decode_state,
    decode_topic,
    encode_state,
    encode_topic,
)

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"
ROW: Final = re.compile(r"^\| ([^|]+) \| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
REFUSED: Final = re.compile(r"refused: `(\w+)`")
BUNDLE: Final = Bundle.parse("a/b/0x00000000_0x80000000")
STAT: Final = Stat(*[0] * len(Stat._fields))


class Format(NamedTuple):
    """One row: a sample that the code writes, and its reader."""

    sample: Mapping[str, Any]
    version_field: str
    read: Callable[[dict[str, Any]], object]


def _session_event() -> dict[str, Any]:
    samples = {ColumnType.TEXT: "x", ColumnType.INTEGER: 1, ColumnType.FLAG: False}
    columns = SESSION_EVENTS.columns
    row = SESSION_EVENTS.row(*(samples.get(column.type, 1.0) for column in columns))
    stamp = Stamp(SESSION_EVENTS.name, SESSION_EVENTS.format, "i", "c", "b:1", 1, 1, 1)
    return dict(line_of(SESSION_EVENTS, stamp, row))


def _audit_line(row: dict[str, Any]) -> object:
    """With a hash of its own, as a release that knows the field would write it."""
    known = {name: value for name, value in row.items() if name not in {"hash", "format"}}
    line, _ = ChainLink(0).append(known)
    if row["format"] != decode_object(line)["format"]:
        line = line.replace(b'"format":1', f'"format":{row["format"]}'.encode())
    return read_link(line)


FORMATS: Final[Mapping[str, Format]] = {
    "nodes below `/broker-ctl`": Format(
        decode_object(LeadEpoch(7, "b:1").encode()),
        "version",
        lambda row: LeadEpoch.decode("/x", encode(row)),
    ),
    "instructions of the controller": Format(
        Instruction(1, 1, 2, 1, is_full=False, brokers={}).to_row(), "version", Instruction.parse
    ),
    "leader and ISR of a partition": Format(
        decode_object(encode_state(LeaderAndIsr(1, 1, (1,), 1))),
        "version",
        lambda row: decode_state(Versioned("/x", encode(row), STAT)),
    ),
    "assignment of a topic": Format(
        decode_object(encode_topic(TopicAssignment("id", {0: Assignment((1,))}, 0))),
        "version",
        lambda row: decode_topic(Versioned("/x", encode(row), STAT)),
    ),
    "lines of the history": Format(_session_event(), "format", parse_line),
    "state of `attach` (`pulsarStateUrl`)": Format(
        decode_object(StateImage((), 5).encode()),
        "version",
        lambda row: StateImage.decode(encode(row)),
    ),
    "placement plans in files": Format(
        PlanFile("c", 1, 1, 2, (), (), ()).to_row(), "format", PlanFile.of_row
    ),
    "lines of the audit log": Format(
        decode_object(ChainLink(0).append({"what": "x"})[0]), "format", _audit_line
    ),
}


def _rows() -> dict[str, re.Match[str]]:
    return {row[1]: row for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}


def _outcome(read: Callable[[dict[str, Any]], object], row: dict[str, Any]) -> str:
    try:
        read(row)
    except BrokerCtlError as error:
        return type(error).__name__
    return ""


def _says(cell: str) -> str:
    """The error that a cell names; empty: the reader takes it."""
    refused = REFUSED.match(cell)
    if refused is None:
        assert cell == "ignored"
        return ""
    return refused[1]


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_says_what_is_written_and_what_becomes_of_what_is_unknown(name: str) -> None:
    sample, version_field, read = FORMATS[name]
    _, _, version, where, unknown_field, newer = _rows()[name].group(0, *range(1, 6))
    assert (where, int(version)) == (f"`{version_field}`", sample[version_field])
    assert _outcome(read, dict(sample)) == ""
    assert _outcome(read, {**sample, "addedLater": "x"}) == _says(unknown_field)
    assert _outcome(read, {**sample, version_field: int(version) + 1}) == _says(newer)


def test_all_kinds_of_history_have_the_format_of_the_row() -> None:
    assert {str(kind.format) for kind in KINDS.values()} == {_rows()["lines of the history"][2]}


def test_a_signature_has_the_version_of_its_row_and_no_field_more() -> None:
    row = _rows()["signatures of requests between daemons"]
    header = f"{row[2]} 1 {'0' * 32} a:1 b:1 {'0' * 64} {'A' * 44}"
    RequestSignature.parse(header)
    for other in (f"{header} more", header.replace(row[2], str(int(row[2]) + 1), 1)):
        with pytest.raises(SignatureRefused):
            RequestSignature.parse(other)
    assert {_says(row[4]), _says(row[5])} == {SignatureRefused.__name__}


def test_a_proof_has_the_version_of_its_row_and_no_part_more() -> None:
    row = _rows()["proofs of placement"]
    proofs = PlacementProofs(
        ClusterKeys.of([bytes(range(32))]),
        "b:1",
        SystemClock(),
        is_required=True,
        epoch=lambda: 1,
        on_failure=lambda _: None,
    )
    proof = proofs.make(BUNDLE, "b:1")
    version, rest = proof.split(".", 1)
    assert version == row[2]
    assert proofs.failure_of(proof, BUNDLE) is None
    for other in (f"{proof}.1", f"{int(version) + 1}.{rest}"):
        assert proofs.failure_of(other, BUNDLE) is ProofFailure.WRONG
    assert row[4] == row[5] == "not a proof"


def test_paths_and_protocol_have_the_versions_of_their_rows() -> None:
    rows = _rows()
    assert rows["API of the broker process"][3] == f"`{wire.PREFIX}`"
    assert wire.PREFIX.endswith(f"v{rows['API of the broker process'][2]}")
    command = AcquireBundle(1, BUNDLE)
    assert parse_order(command.verb, {**command.to_row(), "addedLater": 1}) == command
    assert rows["commands of the leader"][3].endswith(f"v{rows['commands of the leader'][2]}`")
    assert f"POST {rows['commands of the leader'][3].strip('`')}/{{verb}}" in DECLARED
    assert int(rows["Pulsar's binary protocol"][2]) == PROTOCOL_VERSION


def test_every_row_is_held() -> None:
    others = {
        "signatures of requests between daemons",
        "proofs of placement",
        "API of the broker process",
        "commands of the leader",
        "Pulsar's binary protocol",
    }
    assert _rows().keys() == FORMATS.keys() | others
