"""The ciphers of TLS ports, by the names of OpenSSL or those of IANA, which Java has.

A list only narrows what Python allows by default: forward secrecy, and no cipher that is known to
be weak. Python's ssl cannot choose among the ciphers of TLS 1.3.
"""

import re
from collections.abc import Sequence
from ssl import SSLContext, TLSVersion
from typing import Final

_NEWEST: Final = "TLSv1.3"
_NAME: Final = re.compile(
    r"(?P<exchange>ECDHE|DHE)-(?P<proof>ECDSA|RSA)-"
    r"(?:AES(?P<bits>128|256)(?P<mode>-GCM)?-(?P<hash>SHA\d+)|CHACHA20-POLY1305)"
)


def restrict(context: SSLContext, names: Sequence[str]) -> None:
    """Have a server's context speak no other ciphers; the first one is preferred.

    Versions of TLS of which no cipher is named are not spoken.

    Raises:
        ValueError: a name that OpenSSL does not know, or of a weak cipher; some, and not all,
            ciphers of TLS 1.3; none of a version that the context may speak.
    """
    versions = {one["name"]: one["protocol"] for one in context.get_ciphers()}
    known = {name: name for name in versions} | {_iana_name(name): name for name in versions}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{unknown[0]} is not a cipher of OpenSSL here, or a weak one: {', '.join(versions)}, "
            "and IANA's names of these, may be listed"
        )
    chosen = dict.fromkeys(known[name] for name in names)
    newest = {name for name, version in versions.items() if version == _NEWEST}
    older = [name for name in chosen if name not in newest]
    if len(older) == len(chosen):
        context.maximum_version = min(context.maximum_version, TLSVersion.TLSv1_2)
    elif not newest <= chosen.keys():
        raise ValueError(
            "ciphers of TLSv1.3 can only be listed all together, or none of them: "
            + ", ".join(sorted(newest))
        )
    if older:
        context.set_ciphers(":".join(older))
    else:
        context.minimum_version = TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        raise ValueError("none of them is of a version in tlsProtocols")


def _iana_name(name: str) -> str:
    """The name in the registry of IANA; the one of OpenSSL, where that has the same."""
    found = _NAME.fullmatch(name)
    if found is None:
        return name
    keys = f"TLS_{found['exchange']}_{found['proof']}_WITH"
    if found["bits"] is None:
        return f"{keys}_CHACHA20_POLY1305_SHA256"
    return f"{keys}_AES_{found['bits']}_{'GCM' if found['mode'] else 'CBC'}_{found['hash']}"
