"""Who is replayed: a policy with parameters."""

from dataclasses import dataclass
from typing import NamedTuple

from broker_ctl.simulation.replay.baselines import Baseline


class Named(NamedTuple):
    """A candidate, as the tables have it (`results`)."""

    policy: str
    parameters: str

    def __str__(self) -> str:
        return " ".join(each for each in self if each)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate, with the rules that it stands for."""

    policy: str
    parameters: str
    contestant: Baseline

    @property
    def named(self) -> Named:
        """As the tables have it."""
        return Named(self.policy, self.parameters)
