"""Where a key is, in the way of Pulsar: a file, or the setting itself.

``file:///path`` and ``/path`` name a file; ``data:;base64,...`` (RFC 2397) and a text of base64
alone are the key (Pulsar: ``AuthTokenUtils.readKeyFromUrl``).
"""

import base64
import binascii
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from broker_ctl.errors import SettingsError

_DATA: Final = "data:"
_FILE: Final = "file:"


@dataclass(frozen=True, slots=True)
class KeySource:
    """A key in a file, or inline; the text of an inline key is never shown.

    Attributes:
        path: None: the key is inline.
    """

    path: Path | None
    inline: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a setting; whether an inline key can be decoded shows later."""
        if text.startswith(_FILE):
            return cls(Path(unquote(urlsplit(text).path)))
        return cls(Path(text)) if text.startswith("/") else cls(None, text)

    def decode(self) -> bytes:
        """The bytes of an inline key.

        Raises:
            SettingsError: it is not base64. Never shows the text.
        """
        text = self.inline
        if text.startswith(_DATA):
            head, _, text = text.partition(",")
            if not head.endswith(";base64"):
                raise SettingsError("only data URLs with ;base64 are supported")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise SettingsError(
                "is neither a file: URL, an absolute path, a data: URL nor base64"
            ) from None

    def __str__(self) -> str:
        return f"{_DATA};base64,***" if self.path is None else f"{_FILE}//{self.path}"
