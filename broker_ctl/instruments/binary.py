"""Metrics of the binary protocol; lookups themselves are counted elsewhere."""

from broker_ctl.instruments.kinds import Counter, Gauge


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
