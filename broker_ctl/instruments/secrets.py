"""Metrics of the files of secrets and certificates; without such files there are no series."""

from broker_ctl.instruments.kinds import Gauge, Total


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
