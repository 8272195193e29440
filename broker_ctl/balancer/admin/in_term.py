"""How a request of an operator runs: in the scope of the leader's term."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from broker_ctl.balancer.planning.term import LeaderTerm

_T = TypeVar("_T")


class RunInTerm(Protocol):
    """Runs work in the scope of the term; see `LoadBalancer`."""

    def __call__(
        self, work: Callable[[LeaderTerm], Coroutine[Any, Any, _T]], name: str
    ) -> Coroutine[Any, Any, _T]:
        """The result of the work, which ends only with the term."""
        ...
