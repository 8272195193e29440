"""Metrics of requests whose proofs fail."""

from broker_ctl.instruments.kinds import Counter


class SecurityInstruments:
    """What was not proven with a key of the cluster."""

    def __init__(self) -> None:
        self.unproven_lookups = Counter(
            "broker_ctl_unproven_lookups_total",
            "HTTP lookups that call themselves authoritative without a valid proof of the leader; "
            "reason: missing, wrong, expired or stale-epoch. With clusterKeyRequired=true they "
            "were redirected to the leader.",
            ("reason",),
        )
