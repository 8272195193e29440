"""Takes secrets out of texts: those that are known, and what looks like one."""

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"
# Shorter ones would take ordinary words out of texts; nothing that short is a secret.
_SHORTEST: Final = 6
# A name that ends so has a secret; one with File or Path at its end names where it is kept.
_NAME: Final = (
    r"[\w.-]*(?:password|passwd|passphrase|secret|token|credentials?|api[_-]?key|secret[_-]?key"
    r"|private[_-]?key|authorization|cookie)"
)
# Texts are of clients, too, and some are long: each shape begins where none of its characters comes
# before, so that a run of them is gone through once, and not once from each of its places.
_SHAPES: Final = (
    (
        re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
        HIDDEN,
    ),
    (
        re.compile(r"(?<![\w-])(?=[\w-]+\.[\w-])([\w-]*?\b)eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*"),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer|basic|digest)\s+[\w.~+/:=-]{6,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"//[^/@\s\"']+@"), f"//{HIDDEN}@"),
    (re.compile(r"data:[\w/;,-]*base64,[\w+/=-]+"), f"data:{HIDDEN}"),
    # JSON; a number is not a secret: fencing tokens.
    (re.compile(rf'(?i)("{_NAME}"\s*:\s*)"[^"]+"'), rf'\1"{HIDDEN}"'),
    # Properties, variables and logs. Not a number, and not a word that a space follows at once.
    (
        re.compile(rf"(?i)(?<![\w.-])({_NAME}\s?=\s?)(?!\d+\b)(?:\"[^\"]*\"|'[^']*'|[^\s,;\"']+)"),
        rf"\1{HIDDEN}",
    ),
)


class Redaction:
    """What is taken out of every text.

    Args:
        secrets: whole secrets that are known, such as the lines of a file of tokens.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret.strip() for secret in secrets}
        # The longest first: one may contain another.
        usable = sorted((each for each in known if len(each) >= _SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, usable))) if usable else None

    def of(self, text: str) -> str:
        """The text without secrets."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for shape, put in _SHAPES:
            text = shape.sub(put, text)
        return text
