"""Roles of client certificates, by rules and by SPIFFE IDs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from broker_ctl.core.model.regular_expressions import MAX_TEXT_LENGTH, compiled
from broker_ctl.errors import InvalidName
from broker_ctl.security.authentication import Evidence, Principal, Proof
from broker_ctl.security.certificates.peer_certificate import BrokerIdentity, PeerCertificate

# Rules that map the name in a certificate to a role.
#
# The syntax is that of Kafka's ``ssl.principal.mapping.rules`` (``SslPrincipalMapper``): a list of
# ``RULE:pattern/replacement/``, with ``L`` or ``U`` behind it for lower or upper case, and of
# ``DEFAULT``, which takes the name as it is. The first rule whose pattern matches the whole name
# counts.


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


# Roles of client certificates, as Pulsar's AuthenticationProviderTls and Kafka's mapping rules.


_MAX_ROLE_LENGTH: Final = 256
_MAX_CACHED: Final = 1024
_ESCAPE: Final = "\\"


class CertificateRoles:
    """The provider of roles that verified client certificates prove, until they expire.

    Without rules the role is the common name of the subject, as in Pulsar, or the whole SPIFFE ID
    of a certificate whose subject has none. With rules it is what they make of the SPIFFE ID or,
    for lack of one, of the distinguished name.

    Args:
        now_s: Unix time in seconds.
        brokers: whose certificates give no role of a client; None: there are none.
    """

    def __init__(
        self,
        rules: MappingRules | None,
        now_s: Callable[[], float],
        brokers: BrokerIdentity | None = None,
    ) -> None:
        self._rules = rules
        self._now_s = now_s
        self._brokers = brokers
        # Patterns may be expensive, and a client sends many requests with one certificate.
        self._role = lru_cache(maxsize=_MAX_CACHED)(self._role_of)

    def authenticate(self, evidence: Evidence) -> Principal | None:
        """See `Provider.authenticate`."""
        certificate = evidence.certificate
        if certificate is None:
            return None
        role = self._role(certificate) or ""
        principal = Principal(role, Proof.CERTIFICATE, certificate.expires_at_s)
        is_role = 0 < len(role) <= _MAX_ROLE_LENGTH and role.isprintable()
        return principal if is_role and not principal.is_expired(self._now_s()) else None

    def _role_of(self, certificate: PeerCertificate) -> str | None:
        ids = certificate.spiffe_ids
        is_broker = self._brokers is not None and bool(self._brokers.id_in(certificate))
        if is_broker or len(ids) > 1:
            return None
        if self._rules is None:
            return certificate.common_name or "".join(ids)
        if ids:
            return self._rules.role_of(ids[0])
        # A pattern could take an escaped comma in a value for the end of the value.
        is_plain = _ESCAPE not in certificate.subject
        return self._rules.role_of(certificate.subject) if is_plain else None
