"""Metrics of clients: of the binary protocol, bounds, failed proofs, secrets, audit."""

from collections.abc import Callable
from typing import Final

from broker_ctl.instruments.kinds import Counter, Gauge, Total

# Metrics of the audit log of this daemon; 0 without one.


class AuditInstruments:
    """Events of the audit log on their way to the disk."""

    def __init__(self) -> None:
        self.written = Total("broker_ctl_audit_events_total", "Events of the audit log written.")
        self.lost = Total(
            "broker_ctl_audit_lost_events_total",
            "Events of the audit log lost because its queue was full.",
        )
        self.queued = Gauge(
            "broker_ctl_audit_queued_events", "Events of the audit log waiting to be written."
        )
        self.is_failing = Gauge(
            "broker_ctl_audit_failing", "1 while the audit log cannot be written."
        )


# Metrics of the binary protocol; lookups themselves are counted elsewhere.


class BinaryInstruments:
    """Connections and requests of the binary protocol."""

    def __init__(self) -> None:
        self.connections = Gauge(
            "broker_ctl_binary_connections", "Client connections of the binary protocol."
        )
        self.in_flight = Gauge(
            "broker_ctl_binary_requests_in_flight", "Requests of the binary protocol in progress."
        )
        self.refused_connections = Counter(
            "broker_ctl_binary_connections_refused_total",
            "Connections of the binary protocol refused or closed because of a connection limit.",
        )
        self.commands = Counter(
            "broker_ctl_binary_commands_total",
            "Commands of the binary protocol, by type and result.",
            ("type", "result"),
        )


# Metrics of what clients may take at most; every bound has its series here.


_LABELS: Final = ("bound",)


class BoundInstruments:
    """Bounds of connections, requests, streams, handshakes, bodies and rates."""

    def __init__(self) -> None:
        self.used = Gauge(
            "broker_ctl_bound_used",
            "What is taken of a bound now: connections, requests, streams, handshakes or forms; of "
            "http-body-bytes the bytes of the largest body that is being read; of a rate the "
            "requests that the fullest bucket holds.",
            _LABELS,
        )
        self.limit = Gauge(
            "broker_ctl_bound_limit",
            "At how much a bound refuses; +Inf: never. One address or role may have less.",
            _LABELS,
        )
        self.refused = Total(
            "broker_ctl_bound_refused_total",
            "What a bound refused, or closed to make room; also where one address or role had more "
            "than its part of it.",
            _LABELS,
        )

    def follow(
        self,
        bound: str,
        *,
        used: Callable[[], float],
        limit: Callable[[], float],
        refused: Callable[[], float],
    ) -> None:
        """Show a bound under this name."""
        self.used.bind(lambda: {(bound,): used()})
        self.limit.bind(lambda: {(bound,): limit()})
        self.refused.bind(lambda: {(bound,): refused()})


# Metrics of the history of this daemon; 0 without a history.


class HistoryInstruments:
    """Rows of history on their way to the disk, and segments on it."""

    def __init__(self) -> None:
        self.rows = Total("broker_ctl_history_rows_total", "History rows written.")
        self.dropped = Total(
            "broker_ctl_history_dropped_rows_total",
            "History rows dropped because the queue or the disk was full.",
        )
        self.removed = Total(
            "broker_ctl_history_removed_segments_total",
            "History segments deleted to make room for newer ones.",
        )
        self.queued_bytes = Gauge(
            "broker_ctl_history_queued_bytes",
            "Size of the history rows waiting to be written, bytes.",
        )
        self.segments = Gauge(
            "broker_ctl_history_segments", "Completed history segments of this broker."
        )
        self.size_bytes = Gauge(
            "broker_ctl_history_size_bytes",
            "Total size of this broker's completed history segments, bytes.",
        )


# Metrics of the files of secrets and certificates; without such files there are no series.


class SecretInstruments:
    """Files that are reloaded when they change; ``secret`` says what they make."""

    def __init__(self) -> None:
        self.reloads = Total(
            "broker_ctl_secret_reloads_total",
            "Changed files of secrets and certificates that were loaded, or could not be.",
            ("secret", "result"),
        )
        self.expiry = Gauge(
            "broker_ctl_secret_expiry_timestamp_seconds",
            "Unix time at which the first certificate or the token in use from a file ends, by the "
            "setting that names the file.",
            ("setting",),
        )
        self.lists_issued = Gauge(
            "broker_ctl_revocation_list_issued_timestamp_seconds",
            "Unix time at which the revocation list in use that ends first was issued, by the "
            "setting that names its file.",
            ("setting",),
        )
        self.lists_end = Gauge(
            "broker_ctl_revocation_list_expiry_timestamp_seconds",
            "Unix time at which that list ends: from then on all certificates of its authority are "
            "refused.",
            ("setting",),
        )
        self.is_failing = Gauge(
            "broker_ctl_secret_reload_failing",
            "1 while changed files cannot be used, and what was loaded before is.",
            ("secret",),
        )


# Metrics of clients and brokers whose proofs fail.


class SecurityInstruments:
    """Failed authentications, and what was not proven with a key of the cluster."""

    def __init__(self) -> None:
        self.cluster_keys = Gauge(
            "broker_ctl_cluster_key",
            "1 for each key of the cluster that this process has read, by its id, or derived: from "
            "tokens; use: sign for the one that signs and verifies, verify for the others.",
            ("key", "use"),
        )
        self.authentication_failures = Counter(
            "broker_ctl_authentication_failures_total",
            "Requests over HTTP answered with 401, and clients of the binary protocol refused "
            "because of their credentials.",
            ("protocol",),
        )
        self.refused_requests = Counter(
            "broker_ctl_signed_requests_refused_total",
            "Requests refused because of their signature: unsigned commands with "
            "clusterKeyRequired=true, and by reason those whose signature is malformed, of an "
            "unknown-key, for other-target or other-body, of a time that is not now, repeated, "
            "too-many, or sent with an other-certificate than the signing broker's.",
            ("reason",),
        )
        self.unproven_lookups = Counter(
            "broker_ctl_unproven_lookups_total",
            "HTTP lookups that call themselves authoritative without a valid proof of the leader; "
            "reason: missing, wrong, expired or stale-epoch. With clusterKeyRequired=true they "
            "were redirected to the leader.",
            ("reason",),
        )
