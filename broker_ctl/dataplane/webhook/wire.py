"""The JSON API between broker-ctl and a broker process beside it, version 1.

All paths begin with ``/dataplane/v1``. Both sides send ``Authorization: Bearer SECRET`` with the
same secret. Bodies are JSON objects of at most `MAX_REQUEST_BYTES`. A BUNDLE is the text
``tenant/namespace/0xLOW_0xHIGH``, its range half open but for the last one of the ring, which holds
0xffffffff too; a TOPIC is its complete name and lies at the CRC-32 of that name; a TOKEN is an
integer of up to 63 bits.

What the broker process serves:

    GET  /state                          {bundles: {BUNDLE: TOKEN}, authority: AUTHORITY,
                                          storage_refuses_old_tokens: true or false,
                                          version: VERSION}
    POST /bundles/load    {bundle, token, preload}   {}
    POST /bundles/renew   {bundle, token}            {}            404 not loaded
    POST /bundles/split   {parent, children: {BUNDLE: TOKEN}}  {}  404 parent not loaded
    POST /bundles/merge   {children: [BUNDLE, BUNDLE], parent, token}  {}  404 a child not loaded
    POST /bundles/unload  {bundle, deadline_ms}      {topics_closed, is_confirmed}
    POST /bundles/fence   {bundle}                   {}
    POST /topics/unload   {topic}                    {}            404 not loaded
    POST /attach          {}, then as below          {first_call}
    GET  /bundles/topics?bundle=BUNDLE               {topics: [TOPIC]}  404 not loaded
    GET  /bundles/topic-statistics?bundle=BUNDLE     {topics: {TOPIC: STATISTICS}}  404 the same
    GET  /statistics                                 {bundles: {BUNDLE: STATISTICS}}
    GET  /usage                                      {usage: USAGE or null}

and, if it keeps replicas of partitions, the paths that `replica_wire` describes.

What the daemon serves, and the broker process pulls:

    GET  /authority                                  AUTHORITY

    AUTHORITY   {session_epoch, remaining_ms}
    STATISTICS  {msg_rate_in, msg_rate_out, msg_throughput_in, msg_throughput_out, topics,
                 producers, consumers, cache_size_bytes}     per second; absent is 0; the
                 ``topics`` of one topic is 1
    USAGE       {cpu, memory, direct_memory, bandwidth_in, bandwidth_out: {usage, limit}}
                 percent of a core, MiB, MiB, Kbit/s, Kbit/s; absent is unknown; null: ask the host

Every reply of the broker process but a 401 also carries ``instance_id``, a text that is new at each
start of the process. Errors carry ``reason``: 400 malformed (no JSON, a field is missing or
wrong, children that are not their parent cut into pieces), 401 wrong or no secret, 404 no such
path or not loaded, 409 fenced, 412 meant for another instance, 413 body too large. 5xx and 429: ask
again.

A daemon attaches to an instance before it reads the loaded bundles, and before any other POST to
it, with two calls of ``/attach``. The first, with an empty body, allocates FIRST_CALL. The second
is call number FIRST_CALL, is answered with that number, and confirms that this daemon counts from
there. Every POST but the first ``/attach`` carries two more fields, numbered in the order in which
the daemon decides,

    instance_id   of the process that it is meant for
    call          its number

which identify calls that arrive late: a call without an answer may have waited in a socket, or in a
stopped process, while the daemon sent other calls in its place.

``preload``, absent is true: open the topics now; false: open each when its first client connects.

``storage_refuses_old_tokens``, absent is false: the storage fences writes of earlier owners, on
every machine. A daemon with ``ownershipAuthority=storage`` starts only if it is true.

VERSION, a text of 1 to 128 printable characters, is the version of the broker process, which load
reports carry as the broker's. Any other value counts as absent; then load reports carry the version
of the daemon.

What the broker process promises:

1.  It remembers the highest token that it has received for every hash of a namespace, also after an
    unload, and refuses (409) a call with a smaller token for any hash that the call affects.
2.  Loading a bundle replaces all loaded bundles that overlap it. Split and merge keep topics open.
    Unload and fence apply to all loaded bundles that overlap the bundle; unload answers when the
    topics are closed, or at its deadline with ``is_confirmed: false``; fence does not wait.
3.  A call that is repeated with the same tokens is answered as the first time; unload and fence of
    a bundle that is not loaded are confirmed.
4.  It starts no act (accepts no message, delivers none) for a bundle that is not loaded, or after
    its authority has expired. It pulls authority at least once a second; the deadline is the moment
    *before* it sent that request plus ``remaining_ms``, on a clock that counts while the machine
    sleeps. A newer answer replaces an older one, even with less time; a request without an answer
    changes nothing. It starts without authority.
5.  A call that names another ``instance_id`` is refused (412), and no part of it is carried out. A
    call of ``/bundles/`` is refused (409) if its ``call`` is smaller than that of a call which was
    accepted for any of its hashes: the daemon has decided otherwise since. The numbers outlive
    unloads, as tokens do, but not the instance: a new instance starts without any. Each FIRST_CALL
    is larger than the one before by `CALLS_OF_A_DAEMON`. Once a call of one daemon was accepted,
    its ``/attach`` included, every call with a number of an earlier daemon is refused (409), an
    ``/attach`` included, even for hashes that no later call has named: the earlier daemon is dead,
    and its call would be served under the authority of the later one. The second ``/attach`` is
    answered when all accepted calls of earlier daemons are complete. The first ``/attach`` ends no
    other daemon's calls: it may be a late one, of a daemon that is dead. Absent fields are not
    checked.

Until the next release a broker process that does not support ``/attach`` (404) gets calls without
the two fields. There a late call may take effect until the daemon reads the loaded bundles again. A
broker process that answers the second ``/attach`` like the first, with a new number, gets calls
counted from that number. There a late call may take effect until the first call of the daemon.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from broker_ctl.core.model.load import BundleStats, ResourceUsage, SystemUsage
from broker_ctl.core.model.names import Bundle
from broker_ctl.dataplane.bundles.interface import Declared
from broker_ctl.errors import InvalidName

PREFIX: Final = "/dataplane/v1"
MAX_REQUEST_BYTES: Final = 1 << 18
MAX_TOKEN: Final = (1 << 63) - 1
CALLS_OF_A_DAEMON: Final = 1 << 40

STATE: Final = f"{PREFIX}/state"
LOAD: Final = f"{PREFIX}/bundles/load"
RENEW: Final = f"{PREFIX}/bundles/renew"
SPLIT: Final = f"{PREFIX}/bundles/split"
MERGE: Final = f"{PREFIX}/bundles/merge"
UNLOAD: Final = f"{PREFIX}/bundles/unload"
FENCE: Final = f"{PREFIX}/bundles/fence"
TOPICS: Final = f"{PREFIX}/bundles/topics"
TOPIC_STATISTICS: Final = f"{PREFIX}/bundles/topic-statistics"
UNLOAD_TOPIC: Final = f"{PREFIX}/topics/unload"
STATISTICS: Final = f"{PREFIX}/statistics"
USAGE: Final = f"{PREFIX}/usage"
ATTACH: Final = f"{PREFIX}/attach"
AUTHORITY: Final = f"{PREFIX}/authority"
PRELOAD: Final = "preload"
INSTANCE_ID: Final = "instance_id"
CALL: Final = "call"
FIRST_CALL: Final = "first_call"
STORAGE_REFUSES: Final = "storage_refuses_old_tokens"
VERSION: Final = "version"
_MAX_VERSION: Final = 128


def field(payload: Any, name: str, kind: type) -> Any:
    """A required field of a JSON object.

    Raises:
        ValueError: no object, no such field, or a value of another kind.
    """
    value = payload.get(name) if isinstance(payload, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
        raise ValueError(f"{name}: {kind.__name__} expected, not {value!r:.80}")
    return value


def count(payload: Any, name: str) -> int:
    """A required integer from 0 to 2^63 - 1.

    Raises:
        ValueError: anything else.
    """
    value: int = field(payload, name, int)
    if not 0 <= value <= MAX_TOKEN:
        raise ValueError(f"{name}: 0 to 2^63 - 1 expected, not {value}")
    return value


def version(payload: Any) -> str:
    """The broker process's own, of the reply to ``GET /state``; empty where it does not say.

    Raises:
        ValueError: no text of 1 to 128 printable characters.
    """
    if isinstance(payload, dict) and VERSION not in payload:
        return ""
    value: str = field(payload, VERSION, str)
    if not (0 < len(value) <= _MAX_VERSION and value.isprintable()):
        raise ValueError(f"{VERSION}: 1 to 128 printable characters expected, not {value!r:.80}")
    return value


def declared(payload: Mapping[str, Any]) -> Declared:
    """What the reply to ``GET /state`` says of the broker process."""
    refuses = payload.get(STORAGE_REFUSES) is True
    try:
        return Declared(refuses, version(payload))
    except ValueError:
        return Declared(refuses)  # it would be shown, and nothing depends on it


def bundle(text: Any) -> Bundle:
    """A bundle by its key.

    Raises:
        ValueError: another shape.
    """
    try:
        return Bundle.parse(text if isinstance(text, str) else "")
    except InvalidName as error:
        raise ValueError(str(error)) from error


def tokens(payload: Any, name: str) -> dict[Bundle, int]:
    """A required object of bundles and tokens.

    Raises:
        ValueError: anything else.
    """
    value: dict[str, Any] = field(payload, name, dict)
    return {bundle(key): count(value, key) for key in value}


def tokens_json(held: Mapping[Bundle, int]) -> dict[str, int]:
    """Bundles and tokens, as `tokens` reads them."""
    return {str(key): token for key, token in held.items()}


def statistics(payload: Any) -> dict[Bundle, BundleStats]:
    """The reply to ``GET /statistics``.

    Raises:
        ValueError: anything else.
    """
    value: dict[str, Any] = field(payload, "bundles", dict)
    return {bundle(key): _stats(field(value, key, dict)) for key in value}


def statistics_json(stats: Mapping[Bundle, BundleStats]) -> dict[str, Any]:
    """The reply to ``GET /statistics``."""
    return {"bundles": {str(key): asdict(value) for key, value in stats.items()}}


def topic_statistics(payload: Any) -> dict[str, BundleStats]:
    """The reply to ``GET /bundles/topic-statistics``.

    Raises:
        ValueError: anything else.
    """
    value: dict[str, Any] = field(payload, "topics", dict)
    return {name: _stats(field(value, name, dict)) for name in value}


def topic_statistics_json(stats: Mapping[str, BundleStats]) -> dict[str, Any]:
    """The reply to ``GET /bundles/topic-statistics``."""
    return {"topics": {name: asdict(value) for name, value in stats.items()}}


def usage(payload: Any) -> SystemUsage | None:
    """The reply to ``GET /usage``; None: ask the host.

    Raises:
        ValueError: anything else.
    """
    if isinstance(payload, dict) and "usage" in payload and payload["usage"] is None:
        return None
    value: dict[str, Any] = field(payload, "usage", dict)
    known = [part.name for part in fields(SystemUsage) if part.name in value]
    return SystemUsage(**{name: _resource(field(value, name, dict)) for name in known})


def usage_json(value: SystemUsage | None) -> dict[str, Any]:
    """The reply to ``GET /usage``."""
    return {"usage": None if value is None else asdict(value)}


def authority(payload: Any) -> tuple[int, int]:
    """The session epoch and the remaining milliseconds.

    Raises:
        ValueError: anything else.
    """
    return count(payload, "session_epoch"), count(payload, "remaining_ms")


def authority_json(session_epoch: int, remaining_ms: int) -> dict[str, int]:
    """The reply to ``GET /authority``, and a part of the one to ``GET /state``."""
    return {"session_epoch": session_epoch, "remaining_ms": remaining_ms}


def _stats(value: dict[str, Any]) -> BundleStats:
    return BundleStats(
        msg_rate_in=_number(value, "msg_rate_in"),
        msg_rate_out=_number(value, "msg_rate_out"),
        msg_throughput_in=_number(value, "msg_throughput_in"),
        msg_throughput_out=_number(value, "msg_throughput_out"),
        topics=int(_number(value, "topics")),
        producers=int(_number(value, "producers")),
        consumers=int(_number(value, "consumers")),
        cache_size_bytes=int(_number(value, "cache_size_bytes")),
    )


def _resource(value: dict[str, Any]) -> ResourceUsage:
    return ResourceUsage(_number(value, "usage"), _number(value, "limit"))


def _number(value: dict[str, Any], name: str) -> float:
    number = value.get(name, 0)
    # A bool is an int to Python, and no number to anybody else.
    if type(number) not in (int, float) or not 0 <= number < math.inf:
        raise ValueError(f"{name}: a number from 0 on expected, not {number!r:.80}")
    return float(number)
