"""Retries: the same call again after a pause, while the error says that this can help.

A pause is drawn between nothing and a ceiling that grows (full jitter, docs: retries): brokers that
lost the same server must not come back in step. Chance comes from the rng of the daemon only, so
that a run on virtual time can be repeated. Pauses are `asyncio.sleep`, which the loop's clock
measures; a task that is cancelled ends in the middle of one.
"""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from broker_ctl.errors import Ambiguous, BrokerCtlError, StoreError

log = logging.getLogger(__name__)

_T = TypeVar("_T")

# Beyond this the ceiling is reached by any policy, and a power may overflow.
_MAX_GROWTH: Final = 64

# Whether an error is one after which the same call is made again.
Judge = Callable[[BrokerCtlError], bool]


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to pause between two attempts.

    Attributes:
        first_s: ceiling of the pause after the first failure, in seconds.
        factor: growth of the ceiling with each further failure, at least 1.
        max_s: where the ceiling stops growing; pauses are half of it on average then.
    """

    first_s: float = 0.25
    factor: float = 2.0
    max_s: float = 0.5

    def ceiling_s(self, failures: int) -> float:
        """Upper bound of the pause after the last of ``failures``, which count from 1."""
        return min(self.max_s, self.first_s * self.factor ** min(failures - 1, _MAX_GROWTH))

    def delay_s(self, failures: int, rng: random.Random) -> float:
        """The pause after the last of ``failures``."""
        return rng.uniform(0, self.ceiling_s(failures))


# For the metadata store and the broker process: each answers within the second, or is away.
DEFAULT: Final = Backoff()


def is_unanswered(error: BrokerCtlError) -> bool:
    """Whether the store did not execute a write, or left a read unanswered."""
    return isinstance(error, StoreError) and error.can_retry


def is_undecided(error: BrokerCtlError) -> bool:
    """As `is_unanswered`, or a write may have been executed.

    Only for operations that read before they write, or that change nothing when executed twice.
    """
    return is_unanswered(error) or isinstance(error, Ambiguous)


def is_any(*kinds: type[BrokerCtlError]) -> Judge:
    """Judge by the class alone, where another party ends the wait: a watcher, an operator."""
    return lambda error: isinstance(error, kinds)


async def retry(
    operation: Callable[[], Awaitable[_T]],
    what: str,
    *,
    rng: random.Random,
    judge: Judge = is_unanswered,
    backoff: Backoff = DEFAULT,
    attempts: int | None = None,
    limit_s: float = math.inf,
    level: int = logging.INFO,
) -> _T:
    """Call ``operation`` until it answers.

    Args:
        operation: one attempt.
        what: what failed, for the log: "cannot list the owner nodes".
        rng: the daemon's.
        judge: whether to retry after an error; default: what the store leaves unanswered.
        backoff: how long to pause.
        attempts: calls of ``operation``, the first included; default: no limit.
        limit_s: seconds during which attempts are begun; default: no limit.
        level: of log lines.

    Raises:
        BrokerCtlError: one that ``judge`` does not retry, or the error of the last attempt.
    """
    loop = asyncio.get_running_loop()
    end_s, failures, reason = loop.time() + limit_s, 0, ""
    while True:
        try:
            return await operation()
        except BrokerCtlError as error:
            failures += 1
            left_s = end_s - loop.time()
            if not judge(error) or failures == attempts or left_s <= 0:
                raise
            delay_s = min(backoff.delay_s(failures, rng), left_s)
            # A long outage has a short log: powers of two, and what is new.
            if (latest := str(error) or type(error).__name__) != reason or _is_power(failures):
                log.log(level, "%s: %s; retrying in %.1f s", what, latest, delay_s)
                reason = latest
        await asyncio.sleep(delay_s)


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0
