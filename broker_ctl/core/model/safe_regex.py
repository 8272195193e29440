"""Regular expressions of operators, with a bound on the time that a match may take.

Python's matcher backtracks: for ``(a+)+b`` its steps double with each letter of the text, and forty
letters block the process for hours. So the steps of a pattern are counted in advance, and a pattern
with too many is refused.

An engine without backtracking would need no bound. RE2 has neither look-around nor
back-references, which patterns of a Pulsar cluster may have (docs: threat-patterns).
"""

import re
import warnings
from functools import lru_cache
from typing import Final

from broker_ctl.core.model.regex_steps import takes_at_most
from broker_ctl.core.model.regex_syntax import parse
from broker_ctl.errors import InvalidName

MAX_PATTERN_LENGTH: Final = 1024
MAX_TEXT_LENGTH: Final = 256
# Three unbounded quantifiers in one pattern are enough for any name, and a domain name may follow.
# The matcher takes a tenth of a second for as many steps.
_MAX_STEPS: Final = 20_000_000
_ADVICE: Final = (
    "use at most three of * and +, none of them on a group that may vary, "
    "few optional parts, and little behind them"
)


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, and cache the result.

    Raises:
        InvalidName: the pattern is not a regular expression, or a match may take too long.
    """
    found = _judged(pattern)
    if isinstance(found, str):
        raise InvalidName(found)
    return found


# Refusals are kept, too: counting takes long, and each new text would count again.
@lru_cache(maxsize=4096)
def _judged(pattern: str) -> re.Pattern[str] | str:
    try:
        return _compile(pattern)
    except InvalidName as error:
        return str(error)


def _compile(pattern: str) -> re.Pattern[str]:
    quoted = repr(pattern[:80])
    if len(pattern) > MAX_PATTERN_LENGTH:
        text = f"{len(pattern)} characters, at most {MAX_PATTERN_LENGTH}; use several patterns"
        raise InvalidName(f"pattern {quoted}...: {text}")
    try:
        with warnings.catch_warnings(action="ignore"):
            ready = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidName(f"pattern {quoted} is not a regular expression: {error}") from None
    if not takes_at_most(_MAX_STEPS, parse(pattern), MAX_TEXT_LENGTH):
        raise InvalidName(f"pattern {quoted} may take too long: {_ADVICE}")
    return ready


@lru_cache(maxsize=65_536)
def is_match(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a whole text.

    A refused pattern matches nothing, and no pattern matches a text of more than 256 characters.
    """
    if len(text) > MAX_TEXT_LENGTH:
        return False
    try:
        return compiled(pattern).fullmatch(text) is not None
    except InvalidName:
        return False
