"""Candidates of a back-test: a policy with parameters."""

from dataclasses import dataclass
from typing import NamedTuple

from broker_ctl.simulation.replay.baselines import Baseline


class Named(NamedTuple):
    """The name of a candidate in the tables (`results`)."""

    policy: str
    parameters: str

    def __str__(self) -> str:
        return " ".join(each for each in self if each)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate, with its rules."""

    policy: str
    parameters: str
    contestant: Baseline

    @property
    def named(self) -> Named:
        """Its name in the tables."""
        return Named(self.policy, self.parameters)
