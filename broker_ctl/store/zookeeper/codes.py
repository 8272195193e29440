"""A server's error codes as our errors (docs: ambiguous-writes)."""

from typing import Final

from broker_ctl import errors

_ERRORS: Final[dict[int, tuple[type[errors.StoreError], str]]] = {
    -2: (errors.StoreError, "rolled back because of a neighbour"),
    -4: (errors.ConnectionLoss, "connection lost"),
    -5: (errors.StoreError, "the server could not read the request"),
    -6: (errors.Unsupported, "the server does not know this request: 3.6 or newer is needed"),
    -7: (errors.OperationTimeout, "the server timed out"),
    -8: (errors.InvalidPath, "bad arguments"),
    -12: (errors.SessionExpired, "unknown session"),
    -101: (errors.NoNode, "no such node"),
    -102: (errors.NoAuth, "the access control list does not allow it"),
    -103: (errors.BadVersion, "another version"),
    -108: (errors.InvalidPath, "the parent is ephemeral and can have no children"),
    -110: (errors.NodeExists, "the node exists"),
    -111: (errors.NotEmpty, "the node has children"),
    -112: (errors.SessionExpired, "the session has expired"),
    -114: (errors.NoAuth, "invalid access control list"),
    -115: (errors.AuthFailed, "authentication failed"),
    -118: (errors.SessionMoved, "another connection took the session over"),
    -122: (errors.OperationTimeout, "the server took too long"),
    -124: (errors.AuthFailed, "the server requires SASL"),
    -125: (errors.StoreError, "the quota is exceeded"),
    -127: (errors.Throttled, "the server throttles requests"),
}


def error_of(code: int, path: str) -> errors.StoreError:
    """Our error for a server's code; unknown codes keep their number."""
    kind, text = _ERRORS.get(code, (errors.StoreError, f"ZooKeeper error {code}"))
    return kind(f"{path}: {text}" if path else text)
