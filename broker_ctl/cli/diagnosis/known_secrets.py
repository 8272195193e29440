"""The secrets in the files that a configuration names, so that they can be taken out of texts."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker_ctl.settings.root import Settings

_MAX_BYTES: Final = 1024 * 1024


def known_secrets(settings: "Settings") -> Iterator[str]:
    """Whole files, their lines, what stands behind a colon in them, and each in base64 and hex."""
    from broker_ctl.security.key_source import KeySource
    from broker_ctl.settings.root import DECLARATIONS
    from broker_ctl.settings.schema import Guard

    for key, one in DECLARATIONS.items():
        # Certificates and public keys are not secret, and useful.
        if one.setting.guard is not Guard.SECRET and not one.setting.files:
            continue
        value = settings.value(key)
        if isinstance(value, Path):
            for file in [value / name for name in one.setting.files] or [value]:
                yield from _forms_of(file)
        elif isinstance(value, KeySource):
            if value.path is None:
                yield from (value.inline, value.inline.rpartition(",")[2])
            else:
                yield from _forms_of(value.path)


def _forms_of(file: Path) -> Iterator[str]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES)
    except OSError:
        return
    parts = [content, content.strip()]
    for line in content.splitlines():
        _, _, behind = line.partition(b":")
        parts += [line, behind.strip()]
    for part in parts:
        yield part.decode(errors="replace")
        yield base64.b64encode(part).decode()
        yield part.hex()
