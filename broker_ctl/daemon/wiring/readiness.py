"""Whether this daemon is ready, from the lifecycle to the API."""

from dataclasses import dataclass, field

from broker_ctl.api.http.dependencies import Readiness


@dataclass(slots=True)
class ReadinessNow:
    """What /readyz answers; the lifecycle writes it."""

    now: Readiness = field(default_factory=lambda: Readiness(is_ready=False, reason="starting"))
