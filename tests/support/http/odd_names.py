"""Topic names that are hard on URLs, paths, percent-encoding and unicode."""

import random
from typing import Final

from broker_ctl.core.model.names import DOMAINS

# What has a meaning somewhere on the way: in URLs, in paths, in percent-encoding, in unicode.
_ALPHABET: Final = "abc019-_.~!*'();:@&=+$,?#[] %25\"\\^`{|}<>äßé漢字🙂\u0301\u200b"


def odd_names(rng: random.Random, namespace: str, count: int) -> list[str]:
    """Complete topic names of both domains in one namespace, all different."""
    found: set[str] = set()
    while len(found) < count:
        length = rng.randrange(1, 24)
        local = "".join(rng.choice(_ALPHABET) for _ in range(length)).strip()
        if local and local not in {".", ".."}:
            found.add(f"{rng.choice(DOMAINS)}://{namespace}/{local}")
    return sorted(found)
