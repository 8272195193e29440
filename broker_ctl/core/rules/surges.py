"""What counts as a surge of traffic."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SurgeRules:
    """When a bundle or a tenant has surged.

    Attributes:
        times: growth within ``window_s`` that is a surge (loadBalancerSurgeMultiple); 0: no growth
            is one.
        window_s: seconds within which it must grow, and for which the surge is followed.
        least_ratio: least share of a mean broker's bytes or messages that the subject must have.
        new_times: what was seen before does not surge: the traffic must be this multiple of its
            peak of earlier windows, which a move, a restart or a pause of clients does not change.
        recall_s: half-life of that peak.
    """

    times: float = 10.0
    window_s: float = 60.0
    least_ratio: float = 0.05
    new_times: float = 2.0
    recall_s: float = 600.0

    @property
    def is_enabled(self) -> bool:
        """Return whether surges are looked for."""
        return self.times > 0


NO_SURGES: Final = SurgeRules(times=0.0)
