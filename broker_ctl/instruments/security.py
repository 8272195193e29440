"""Metrics of clients and brokers whose proofs fail."""

from broker_ctl.instruments.kinds import Counter, Gauge


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
