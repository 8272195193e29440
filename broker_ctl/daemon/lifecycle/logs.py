"""Logs on stderr: text for people, or JSON whose events programs may rely on."""

import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from broker_ctl.codec import encode
from broker_ctl.core.model.safe_text import escape
from broker_ctl.settings.subjects.log import LogFormat, LogSettings

# The events of JSON logs that programs may rely on: names, and names of their fields.
#
# A line's sentence may be written better in any release; its event and fields stay. An event is
# found by the module that logs it and the sentence before it is filled in.
# `tests/daemon/lifecycle/test_log_events.py` fails when a sentence is changed without its row
# here.


class LogEvent(NamedTuple):
    """One event.

    Attributes:
        name: as in ``event`` of a line.
        module: below ``broker_ctl``, which logs it.
        sentence: before it is filled in.
        fields: the names of what fills it in, in order.
    """

    name: str
    module: str
    sentence: str
    fields: tuple[str, ...] = ()


_SESSION: Final = "coordination.session"
_SERVING: Final = "broker.ownership.reacquire"
_ELECTION: Final = "coordination.election"
_DIRECTIVES: Final = "coordination.directives"
_NAMESPACES: Final = "broker.namespaces.namespaces"
_MAINTENANCE: Final = "balancer.planning.directives"
_ROLLOUT: Final = "balancer.planning.rollout"
_REASSIGNMENT: Final = "controller.procedures.reassignment"
_LIFECYCLE: Final = "daemon.lifecycle"

EVENTS: Final = (
    # The process.
    LogEvent(
        "daemon-starting",
        f"{_LIFECYCLE}.start",
        "broker-ctl %s, pid %d, configuration %s",
        ("version", "pid", "configuration"),
    ),
    LogEvent("daemon-stopping", f"{_LIFECYCLE}.lifecycle", "stopping: handing bundles over"),
    LogEvent(
        "bundles-not-released",
        f"{_LIFECYCLE}.lifecycle",
        "%d bundles were not released: the session is left to expire",
        ("bundles",),
    ),
    LogEvent(
        "event-loop-late",
        "store.zookeeper.liveness",
        "the event loop did not run for up to %.1f s",
        ("late_s",),
    ),
    LogEvent("task-failed", "tasks", "task %s failed: %s", ("task", "error")),
    # Session and registration.
    LogEvent(
        "session-state-changed",
        _SESSION,
        "session %d: %s -> %s (%s)",
        ("session", "before", "after", "cause"),
    ),
    LogEvent(
        "serving-suspended",
        _SERVING,
        "session %d is lost and the lease has ended: %d bundles are not served until ZooKeeper "
        "answers again",
        ("session", "bundles"),
    ),
    LogEvent(
        "serving-resumed",
        _SERVING,
        "the session is back: acquiring %d bundles again, as far as no other broker has them",
        ("bundles",),
    ),
    LogEvent(
        "broker-registered",
        "coordination.membership.registry",
        "registered as %s",
        ("broker",),
    ),
    LogEvent(
        "zookeeper-standing",
        "store.zookeeper.server_status",
        "ZooKeeper: %s (%s)",
        ("verdict", "servers"),
    ),
    LogEvent(
        "open-nodes-found",
        "daemon.lifecycle.serving",
        "%s: %d of %d nodes in ZooKeeper are open to everybody, such as %s; run "
        "broker-ctl zookeeper secure",
        ("store", "open", "nodes", "examples"),
    ),
    # Elections.
    LogEvent("leader-elected", _ELECTION, "elected at %s, epoch %d", ("election", "epoch")),
    LogEvent(
        "leadership-ended",
        _ELECTION,
        "no longer leader at %s, epoch %d",
        ("election", "epoch"),
    ),
    LogEvent(
        "stale-command-refused",
        "coordination.election",
        "refusing a command at epoch %d: the newest at %s is %d, so no elected broker sent it; "
        "look for the sender, which has a token of this cluster if one is needed",
        ("epoch", "election", "newest_epoch"),
    ),
    # Bundles.
    LogEvent(
        "bundle-acquired",
        "broker.ownership.acquire",
        "acquired %s, token %d",
        ("bundle", "token"),
    ),
    LogEvent(
        "bundle-released",
        "broker.ownership.release",
        "released %s: closed %d topics in %.0f ms",
        ("bundle", "topics", "took_ms"),
    ),
    LogEvent("bundle-lost", "broker.ownership.reacquire", "%s was lost: %s", ("bundle", "error")),
    LogEvent(
        "bundles-kept",
        "broker.ownership.reacquire",
        "session %d: kept %d of %d bundles in %.3f s, at most %d acquisitions at once",
        ("session", "kept", "bundles", "took_s", "at_once"),
    ),
    LogEvent(
        "bundle-fenced",
        "broker.ownership.dataplane_watch",
        "%s is loaded under token %d but not owned under it: fencing it",
        ("bundle", "token"),
    ),
    LogEvent("ring-changed", "broker.ownership.ring_change", "%s became %s", ("change", "ranges")),
    LogEvent(
        "namespace-created",
        _NAMESPACES,
        "created namespace %s with %d bundles",
        ("namespace", "bundles"),
    ),
    LogEvent("namespace-deleted", _NAMESPACES, "deleted namespace %s", ("namespace",)),
    # The balancer, and what operators ask of it.
    LogEvent("balancing-paused", _DIRECTIVES, "the balancing is paused%s", ("order",)),
    LogEvent("balancing-resumed", _DIRECTIVES, "the pause of the balancing has ended"),
    LogEvent(
        "balancing-braked",
        "balancer.planning.orphans",
        "the balancing is paused: %s",
        ("cause",),
    ),
    LogEvent("drain-begun", _DIRECTIVES, "%s is drained%s", ("broker", "order")),
    LogEvent("drain-ended", _DIRECTIVES, "%s is not drained any more", ("broker",)),
    LogEvent(
        "drain-failed",
        _MAINTENANCE,
        "the scheduled drain of %s cannot begin: %s",
        ("broker", "error"),
    ),
    LogEvent("cycle-failed", "balancer.planning.cycle", "cycle %d failed: %s", ("cycle", "error")),
    LogEvent(
        "move-aborted",
        "balancer.execution.transfer",
        "move %s aborted: %s",
        ("move", "cause"),
    ),
    LogEvent("rollout-begun", f"{_ROLLOUT}.runner", "rollout %s begins%s", ("rollout", "order")),
    LogEvent(
        "rollout-state-changed", f"{_ROLLOUT}.runner", "rollout %s is %s", ("rollout", "state")
    ),
    LogEvent(
        "rollout-stopped",
        "balancer.planning.rollout.runner",
        "rollout %s stops at %s: %s",
        ("rollout", "broker", "cause"),
    ),
    LogEvent(
        "setting-overridden",
        "broker.policies.dynamic_config",
        "%s is overridden by %r for all brokers",
        ("key", "value"),
    ),
    # Partitions.
    LogEvent(
        "unclean-election",
        "controller.state.transitions",
        "%s: unclean election of %d",
        ("partition", "leader"),
    ),
    LogEvent(
        "reassignment-begun",
        _REASSIGNMENT,
        "topic %s: reassigning %d partitions",
        ("topic", "partitions"),
    ),
    LogEvent(
        "reassignment-ended",
        _REASSIGNMENT,
        "topic %s: %d partitions have been reassigned",
        ("topic", "partitions"),
    ),
    # Security.
    LogEvent(
        "request-rejected",
        "api.http.access.authorization",
        "rejected with %d: %s %r from %s, %s",
        ("status", "method", "path", "address", "cause"),
    ),
    LogEvent(
        "files-not-used",
        "security.rotation.reloadable",
        "%s: the changed files are not used: %s",
        ("files", "error"),
    ),
    LogEvent(
        "audit-log-failed",
        "security.audit.log",
        "cannot write the audit log: %s; events wait in a queue",
        ("error",),
    ),
    LogEvent(
        "signature-refused",
        "store.signed",
        "%s carries %s under the cluster's key: %s",
        ("node", "finding", "fate"),
    ),
)
_BY_PLACE: Final[Mapping[tuple[str, str], LogEvent]] = {
    (f"broker_ctl.{event.module}", event.sentence): event for event in EVENTS
}


def event_of(record: logging.LogRecord) -> dict[str, Any]:
    """``event`` and ``fields`` of a line; empty where its place has no event."""
    event = _BY_PLACE.get((record.name, str(record.msg)))
    if event is None:
        return {}
    arguments = record.args if isinstance(record.args, tuple) else ()
    fields = zip(event.fields, map(_plain, arguments), strict=False)
    return {"event": event.name, "fields": dict(fields)}


def _plain(value: object) -> str | int | float | None:
    return value if isinstance(value, str | int | float) or value is None else str(value)


# Logs on stderr, one line per record: text for people or JSON for machines.


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        row = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **event_of(record),
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            row["trace"] = "".join(traceback.format_exception(record.exc_info[1]))
        return encode(row).decode()


class TextFormatter(logging.Formatter):
    """Time, level, logger without the package, message.

    Names from outside are part of messages and of errors: their control characters are escaped, and
    lines of a traceback are indented, so that no name can end a line and forge the next.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-7s %(short)s: %(message)s")
        self.datefmt = "%Y-%m-%d %H:%M:%S"

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, followed by its traceback if it has one."""
        record.short = record.name.removeprefix("broker_ctl.")
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        """The line, without control characters."""
        return escape(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's name
        """The traceback, each line indented."""
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"  {escape(line)}" for line in lines)


def configure_logs(settings: LogSettings) -> None:
    """Send all logs of the process to stderr."""
    out = logging.StreamHandler(sys.stderr)
    is_json = settings.format is LogFormat.JSON
    out.setFormatter(JsonFormatter() if is_json else TextFormatter())
    logging.basicConfig(handlers=[out], level=settings.level.value.upper(), force=True)
