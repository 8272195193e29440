"""Breaks of signatures: strangers who write nodes, or who send commands, as leaders do."""

from typing import Final

from tests.mutants.mutant import Mutant, plant, unit

_NODES: Final = "store/signed.py"
_REQUESTS: Final = "security/signed_requests.py"

_SIGNED: Final = unit("store/signed", "security/znodes")
_PEERS: Final = unit("security/peers/test_signed_requests.py")

SIGNATURES: Final[tuple[Mutant, ...]] = (
    plant(
        "nodes-not-verified",
        "I3",
        _NODES,
        "if not self._keys.verify(_CONTEXT, message, base64.b64decode(found[2])):",
        "if not base64.b64decode(found[2]):",
        _SIGNED,
    ),
    plant(
        "unsigned-nodes-accepted",
        "I3",
        _NODES,
        "            return node, Failure.UNSIGNED\n",
        "            return node, None\n",
        _SIGNED,
    ),
    plant(
        "refused-nodes-believed",
        "I3",
        _NODES,
        "return None if family.is_hidden else node._replace(data=_REFUSED)",
        "return node",
        _SIGNED,
    ),
    plant(
        "signed-for-any-path",
        "I3",
        _NODES,
        "scope, name = self._scope.encode(), path.encode()",
        'scope, name = self._scope.encode(), b""',
        _SIGNED,
    ),
    plant(
        "signed-for-any-cluster",
        "I3",
        _NODES,
        "scope, name = self._scope.encode(), path.encode()",
        'scope, name = b"", path.encode()',
        _SIGNED,
    ),
    plant(
        "signed-for-any-session",
        "I3 I8",
        _NODES,
        "% (scope, name, owner, time_ms, data)",
        "% (scope, name, 0, time_ms, data)",
        _SIGNED,
    ),
    plant(
        "earlier-payloads-accepted",
        "I3",
        _NODES,
        "if abs(node.stat.mtime_ms - time_ms) > MAX_SKEW_MS:",
        "if time_ms < 0:",
        _SIGNED,
    ),
    plant(
        "lists-not-verified",
        "I3",
        "store/signed.py",
        "return [opened(found) if type(found) is Versioned else found for found in answers]",
        "return [opened(found) and found if type(found) is Versioned else found "
        "for found in answers]",
        _SIGNED,
    ),
    plant(
        "requests-not-verified",
        "I3",
        _REQUESTS,
        "if not self._keys.verify(_CONTEXT, found.message(method, path), found.mac):",
        "if not found.mac:",
        _PEERS,
    ),
    plant(
        "requests-for-others",
        "I3",
        _REQUESTS,
        "        if found.target != self._own_id:\n",
        "        if not found.target:\n",
        _PEERS,
    ),
    plant(
        "requests-twice",
        "I3",
        _REQUESTS,
        "        self.nonces.admit(found.nonce, now_ms)\n",
        "",
        _PEERS,
    ),
    plant(
        "requests-of-any-time",
        "I3",
        _REQUESTS,
        "        if not -MAX_AHEAD_MS <= now_ms - found.time_ms <= MAX_SKEW_MS:\n",
        "        if found.time_ms < 0:\n",
        _PEERS,
    ),
    plant(
        "requests-of-before-the-start",
        "I3",
        _REQUESTS,
        "        if not found.start and found.time_ms < self._started_ms:\n",
        "        if not found.start and found.time_ms < 0:\n",
        _PEERS,
    ),
    plant(
        "requests-of-clocks-ahead-after-the-start",
        "I3",
        _REQUESTS,
        "        if not found.start and found.time_ms <= self._started_ms + MAX_AHEAD_MS:\n",
        "        if not found.start and found.time_ms < self._started_ms:\n",
        _PEERS,
    ),
    plant(
        "requests-for-another-start",
        "I3",
        _REQUESTS,
        "        if found.start and found.start != self._start:\n",
        "        if found.start and not self._start:\n",
        _PEERS,
    ),
)
