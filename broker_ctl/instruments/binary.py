"""What is counted of the binary protocol; lookups themselves are counted by their manager."""

from broker_ctl.instruments.kinds import Counter, Gauge


class BinaryInstruments:
    """Binary protocol; its clients, and what they ask for."""

    def __init__(self) -> None:
        self.connections = Gauge(
            "broker_ctl_binary_connections", "Clients that are connected for lookups."
        )
        self.in_flight = Gauge(
            "broker_ctl_binary_requests_in_flight", "Requests of these clients in progress."
        )
        self.refused_connections = Counter(
            "broker_ctl_binary_connections_refused_total",
            "Connections that were refused because there were too many.",
        )
        self.commands = Counter(
            "broker_ctl_binary_commands_total",
            "Commands of these clients, by type and by what was answered.",
            ("type", "result"),
        )
