"""Rules that map the name in a certificate to a role.

The syntax is that of Kafka's ``ssl.principal.mapping.rules`` (``SslPrincipalMapper``): a list of
``RULE:pattern/replacement/``, with ``L`` or ``U`` behind it for lower or upper case, and of
``DEFAULT``, which takes the name as it is. The first rule whose pattern matches the whole name
counts.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from broker_ctl.core.model.safe_regex import MAX_TEXT_LENGTH, compiled
from broker_ctl.errors import InvalidName

_MAX_RULES: Final = 64
_DEFAULT: Final = "DEFAULT"
_PART: Final = r"(?:\\.|[^\\/])*"
_RULE: Final = re.compile(
    rf"\s*(?:{_DEFAULT}|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?))\s*"
)
_TOKEN: Final = re.compile(r"\\(?P<escaped>.)|\$(?P<group>[0-9]{1,2})")


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; an empty pattern is ``DEFAULT``."""

    pattern: str = ""
    replacement: str = ""
    case: str = ""

    def __str__(self) -> str:
        return f"RULE:{self.pattern}/{self.replacement}/{self.case}" if self.pattern else _DEFAULT

    def apply(self, name: str) -> str | None:
        """The role; None: the pattern does not match."""
        if not self.pattern:
            return name
        found = compiled(self.pattern).fullmatch(name)
        if found is None:
            return None
        role = _TOKEN.sub(lambda token: _expansion(token, found), self.replacement)
        return {"L": role.lower(), "U": role.upper()}.get(self.case, role)


@dataclass(frozen=True, slots=True)
class MappingRules:
    """A list of rules."""

    rules: tuple[_Rule, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a list of rules.

        Raises:
            ValueError, InvalidName: it is malformed; a pattern is not a regular expression, or may
                take too long; a replacement names a group that its pattern does not have.
        """
        rules: list[_Rule] = []
        at = 0
        while at <= len(text):
            match = _RULE.match(text, at)
            if match is None or text[match.end() : match.end() + 1] not in {"", ","}:
                raise ValueError(
                    f"{text[at : at + 40].strip()!r} is neither DEFAULT nor "
                    "RULE:pattern/replacement/, followed by L, U or nothing"
                )
            rules.append(_rule_of(match))
            at = match.end() + 1
        if len(rules) > _MAX_RULES:
            raise ValueError(f"more than {_MAX_RULES} rules")
        return cls(tuple(rules))

    def role_of(self, name: str) -> str | None:
        """The role of the first rule that matches a name; None: none does.

        A name of more than 256 characters has none.
        """
        if len(name) > MAX_TEXT_LENGTH:
            return None
        return next((role for each in self.rules if (role := each.apply(name)) is not None), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.rules))


def _rule_of(match: re.Match[str]) -> _Rule:
    if match["pattern"] is None:
        return _Rule()
    if not match["pattern"]:
        raise ValueError("a rule without a pattern")
    groups = compiled(match["pattern"]).groups
    for token in _TOKEN.finditer(match["replacement"]):
        if token["group"] is not None and int(token["group"]) > groups:
            raise InvalidName(f"${token['group']}: the pattern has {groups} groups")
    return _Rule(match["pattern"], match["replacement"], match["case"])


def _expansion(token: re.Match[str], found: re.Match[str]) -> str:
    if token["group"] is None:
        return token["escaped"]
    return found[int(token["group"])] or ""
