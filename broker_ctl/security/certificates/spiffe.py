"""SPIFFE IDs, which certificates have as a URI among their subject alternative names.

Source: *The SPIFFE Identity and Verifiable Identity Document*, section 2, and *X.509-SVID*, section
2 (github.com/spiffe/spiffe, ``standards``).
"""

import re
from typing import Final

SCHEME: Final = "spiffe://"
_MAX_LENGTH: Final = 2048
_ID: Final = re.compile(r"spiffe://[a-z0-9._-]{1,255}(/[A-Za-z0-9._-]+)*")


def is_spiffe_id(uri: str) -> bool:
    """Whether a URI is a SPIFFE ID: no port, user, query, percent sign or segment of dots."""
    if len(uri) > _MAX_LENGTH or _ID.fullmatch(uri) is None:
        return False
    return not {".", ".."} & set(uri.removeprefix(SCHEME).split("/")[1:])
