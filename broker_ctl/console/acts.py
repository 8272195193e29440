"""The acts of the console: the request of each, and the command line that sends the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from shlex import quote as quote_word
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, urlencode

from broker_ctl import codec
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import CorruptRecord, InvalidName
from broker_ctl.security.authorization import Operation

_BY: Final = "console"
_MOST_TEXT: Final = 300
_PLANS: Final = "/control/v1/plans"
_DRAINS: Final = "/control/v1/drains"
_PAUSE: Final = "/control/v1/pause"
_ROLLOUT: Final = "/control/v1/rollout"
_PARTITIONS: Final = "/control/v1/partitions"
_REASSIGNMENTS: Final = f"{_PARTITIONS}/reassignments"
_MOST_PARTITIONS: Final = 200_000
_DIGITS: Final = 11

# The field of a plan that was shown, as JSON: what was shown is what is done.
PLANNED: Final = "partitions"

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ActRequest:
    """One request of the HTTP API.

    Attributes:
        query: without ``dry_run``.
        command: the command line that sends the same.
    """

    method: str
    path: str
    command: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None

    def target(self, *, is_dry_run: bool) -> str:
        """Path and query."""
        query = {**self.query, **({"dry_run": "true"} if is_dry_run else {})}
        return f"{self.path}?{urlencode(query)}" if query else self.path


@dataclass(frozen=True, slots=True)
class ConsoleAct:
    """One act.

    Attributes:
        title: what the button says.
        fields: what has to be given; each is text.
        operation: what the API asks of a role for it.
        has_reason: whether the command line has an option for a reason.
        plan: is asked first; the ``partitions`` of its reply are what the act does.
    """

    title: str
    fields: tuple[str, ...]
    request: Callable[[Fields], ActRequest]
    operation: Operation
    has_reason: bool = False
    plan: Callable[[Fields], ActRequest] | None = None


def fields_of(act: ConsoleAct, given: Mapping[str, str]) -> Fields:
    """The fields of an act, from what a form sends.

    Raises:
        InvalidName: one is missing, too long, or not printable.
    """
    found = {name: given.get(name, "").strip() for name in act.fields}
    for name, text in found.items():
        most = _MOST_PARTITIONS if name == PLANNED else _MOST_TEXT
        if name == PLANNED and not text:
            continue
        if not text or len(text) > most or not text.isprintable():
            raise InvalidName(f"{name} has to be given, in at most {most} characters")
    reason = given.get("reason", "").strip()
    if len(reason) > _MOST_TEXT or not (reason.isprintable() or not reason):
        raise InvalidName(f"a reason has at most {_MOST_TEXT} printable characters")
    return {**found, "reason": reason}


def _bundle_act(verb: str, given: Fields, query: Mapping[str, str], command: str) -> ActRequest:
    bundle = Bundle.parse(given["bundle"])
    path = f"/admin/v2/namespaces/{quote(str(bundle.namespace))}/{bundle.range}/{verb}"
    line = f"broker-ctl bundles {command}"
    return ActRequest("PUT", path, line, {**query, "by": _BY})


def _move(given: Fields) -> ActRequest:
    command = f"move {quote_word(given['bundle'])} {quote_word(given['to'])}"
    return _bundle_act("unload", given, {"destinationBroker": given["to"]}, command)


def _unload(given: Fields) -> ActRequest:
    return _bundle_act("unload", given, {}, f"unload {quote_word(given['bundle'])}")


def _split(given: Fields) -> ActRequest:
    return _bundle_act("split", given, {"unload": "false"}, f"split {quote_word(given['bundle'])}")


def _merge(given: Fields) -> ActRequest:
    return _bundle_act("merge", given, {}, f"merge {quote_word(given['bundle'])}")


def _with_reason(command: str, given: Fields) -> str:
    return f"{command} --reason {quote_word(given['reason'])}" if given["reason"] else command


def _reasoned(given: Fields) -> Mapping[str, Any]:
    return {"by": _BY, "reason": given["reason"]}


def _drain(given: Fields) -> ActRequest:
    path = f"{_DRAINS}/{quote(given['broker'], safe=':')}"
    command = _with_reason(f"broker-ctl drain {quote_word(given['broker'])}", given)
    return ActRequest("PUT", path, command, body=_reasoned(given))


def _undrain(given: Fields) -> ActRequest:
    path = f"{_DRAINS}/{quote(given['broker'], safe=':')}"
    return ActRequest("DELETE", path, f"broker-ctl undrain {quote_word(given['broker'])}")


def _propose(given: Fields) -> ActRequest:
    path = f"{_PLANS}/{quote(given['plan'], safe='')}"
    command = _with_reason(f"broker-ctl plan --propose {quote_word(given['plan'])}", given)
    return ActRequest("POST", path, command, body=_reasoned(given))


def _approve(given: Fields) -> ActRequest:
    path = f"{_PLANS}/{quote(given['plan'], safe='')}"
    command = _with_reason(f"broker-ctl plan --approve {quote_word(given['plan'])}", given)
    # Of the plan on the page, so that nothing else is approved.
    body = {**_reasoned(given), "digest": given["digest"]}
    return ActRequest("PUT", path, command, body=body)


def _stop(given: Fields) -> ActRequest:
    path = f"{_PLANS}/{quote(given['plan'], safe='')}"
    return ActRequest(
        "DELETE", path, _with_reason("broker-ctl plan --stop", given), body=_reasoned(given)
    )


def _pause(given: Fields) -> ActRequest:
    command = _with_reason("broker-ctl pause", given)
    return ActRequest("PUT", _PAUSE, command, body=_reasoned(given))


def _resume(_: Fields) -> ActRequest:
    return ActRequest("DELETE", _PAUSE, "broker-ctl resume")


def _rollout_act(title: str, verb: str) -> ConsoleAct:
    def request(given: Fields) -> ActRequest:
        command = _with_reason(f"broker-ctl rollout {verb}", given)
        return ActRequest("POST", f"{_ROLLOUT}/{verb}", command, body=_reasoned(given))

    return ConsoleAct(title, (), request, Operation.DRAIN, has_reason=True)


def _plan_reassignment(given: Fields) -> ActRequest:
    body = {"topics": [given["topic"]], "brokers": _numbers(given["brokers"])}
    return ActRequest("POST", f"{_PARTITIONS}/plan", _reassign_command(given), body=body)


def _reassign(given: Fields) -> ActRequest:
    body = {PLANNED: _decoded(given[PLANNED])}
    return ActRequest("PUT", _REASSIGNMENTS, _reassign_command(given), body=body)


def _reassign_command(given: Fields) -> str:
    topic, brokers = quote_word(given["topic"]), quote_word(given["brokers"])
    return (
        f"broker-ctl partitions reassign plan {topic} --brokers {brokers} --out moves.json\n"
        "broker-ctl partitions reassign start --from moves.json"
    )


def _cancel_reassignment(given: Fields) -> ActRequest:
    [number] = _numbers(given["partition"])
    name = quote_word(f"{given['topic']}-{number}")
    body = {PLANNED: [{"topic": given["topic"], "partition": number}]}
    command = f"broker-ctl partitions reassign cancel {name}"
    return ActRequest("DELETE", _REASSIGNMENTS, command, body=body)


def _elect(_: Fields) -> ActRequest:
    path, command = f"{_PARTITIONS}/elections", "broker-ctl elect preferred"
    return ActRequest("POST", path, command, body={"kind": "preferred"})


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < _DIGITS for part in parts):
        raise InvalidName(f"{text[:_MOST_TEXT]!r} is not a number, nor several with commas")
    return [int(part) for part in parts]


def _decoded(text: str) -> Any:
    """The plan that a form has; the API judges what it contains."""
    try:
        return codec.decode(text.encode())
    except CorruptRecord as error:
        raise InvalidName(f"{PLANNED} is not a plan: {error}") from error


ACTS: Final[Mapping[str, ConsoleAct]] = MappingProxyType(
    {
        "move": ConsoleAct("Move the bundle", ("bundle", "to"), _move, Operation.MOVE),
        "unload": ConsoleAct("Unload the bundle", ("bundle",), _unload, Operation.MOVE),
        "split": ConsoleAct("Split the bundle", ("bundle",), _split, Operation.SPLIT),
        "merge": ConsoleAct(
            "Merge the bundle with the next one", ("bundle",), _merge, Operation.SPLIT
        ),
        "drain": ConsoleAct(
            "Drain the broker", ("broker",), _drain, Operation.DRAIN, has_reason=True
        ),
        "undrain": ConsoleAct("End the drain", ("broker",), _undrain, Operation.DRAIN),
        "propose": ConsoleAct(
            "Propose the plan", ("plan",), _propose, Operation.PLAN, has_reason=True
        ),
        "approve": ConsoleAct(
            "Approve the plan",
            ("plan", "digest"),
            _approve,
            Operation.APPROVE,
            has_reason=True,
        ),
        "stop": ConsoleAct("Stop the plan", ("plan",), _stop, Operation.PLAN, has_reason=True),
        "pause": ConsoleAct("Pause the balancer", (), _pause, Operation.PAUSE, has_reason=True),
        "resume": ConsoleAct("Resume the balancer", (), _resume, Operation.PAUSE),
        "rollout-pause": _rollout_act("Pause the rollout", "pause"),
        "rollout-resume": _rollout_act("Resume the rollout", "resume"),
        "rollout-abort": _rollout_act("Abort the rollout", "abort"),
        "reassign": ConsoleAct(
            "Reassign the partitions",
            ("topic", "brokers", PLANNED),
            _reassign,
            Operation.MOVE,
            plan=_plan_reassignment,
        ),
        "cancel-reassignment": ConsoleAct(
            "Cancel the reassignment",
            ("topic", "partition"),
            _cancel_reassignment,
            Operation.MOVE,
        ),
        "elect": ConsoleAct("Return to the preferred leaders", (), _elect, Operation.MOVE),
    }
)
