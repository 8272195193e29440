"""The words that may not appear in names and texts, and the names that others have replaced."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

# What to write in its place; the phrases are those of docs, CONTRIBUTING.md, "English".
RIDDLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anew": "again, or: from the start",
        "told": "reported, notified, announced, informed",
        "tell": "report, notify, announce, inform",
        "tells": "reports, notifies, announces, informs",
        "telling": "reporting, notifying, announcing",
        "befell": "happened to",
        "befall": "happen to",
        "befalls": "happens to",
        "heed": "honour",
        "heeds": "honours",
        "heeded": "honoured",
        "whoever": "the one that acts, by its name: caller, client, leader, operator",
        "somebody": "the one that acts, by its name: caller, client, leader, operator",
        "all the same": "anyway, or: nevertheless",
        "so many": "the number of them",
        "so long": "the time, with its unit",
        "at the moment of": "when",
    }
)
# Earlier names of classes, functions, modules and settings. Ordinary words which others of today's
# names use (Move, Answer, take, held) cannot be judged by a list and are left out.
REPLACED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "OwnOrders": "CommandHandler",
        "MakeHands": "ExecutorFactory",
        "Mailroom": "ResponseInbox",
        "Postbox": "ResponseListener",
        "Parcels": "SendQueue",
        "LeaderDesk": "BalancerAdmin",
        "PartitionDesk": "ControllerAdmin",
        "Desk": "an admin",
        "desk": "admin",
        "MakeOffice": "inlined in the controller",
        "Office": "Procedures",
        "office": "procedures",
        "ShownParts": "dependencies of a room",
        "SteeringParts": "dependencies of a room",
        "LeaderParts": "dependencies of a room",
        "Witness": "OutcomeVerifier",
        "witness": "verifier",
        "Doubts": "RevalidationQueue",
        "doubts": "revalidation",
        "outwait": "wait_for_deletion",
        "Retaker": "BulkReacquirer",
        "retake": "reacquire",
        "Holdings": "OwnedBundles",
        "LoadBoard": "LoadMonitor",
        "Deeds": "ExecutionLog",
        "written_down": "recording",
        "Steadiness": "StabilityGate",
        "seat_records": "election_records",
        "WatchedTree": "TreeCache",
        "FollowedNodes": "NodeCache",
        "CatchingUp": "SyncBarrier",
        "in_turns": "a worker thread",
        "NO_FOOTPRINT": "the empty load vector",
        "Sifted": "FilterResult",
        "Picture": "PlannerInput",
        "pictured": "build_input",
        "Circumstances": "PlannerContext",
        "shunned": "avoid",
        "proposed_in_steps": "propose",
        "planned_in_steps": "plan",
        "Mail": "RequestsByBroker",
        "Letter": "PartitionUpdate or StopReplica",
        "fell_silent": "unresponsive",
        "spoke_again": "responsive",
        "overflowed": "queue_overflowed",
        "Doorkeeper": "Authorizer",
        "Explainer": "ErrorRenderer",
        "Surroundings": "Environment",
        "gathering": "batched_store",
        "Showing": "Server",
        "shown_plans": "proposed_plans",
        "MeasuredStore": "InstrumentedStore",
        "RequestLine": "RequestPipeline",
        "stand_in": "authority_stub",
        "act_judge": "ownership_checker",
        "rivals": "baselines",
        "chronicle": "history_writer",
        "begin_anew": "restart",
        "saw_controller": "ConfirmedEpoch.read",
    }
)
_BLANK: Final = r"(?:\s|#:?|\\n|[\"'_])+"
# "There is no" and comparisons are English; "X is no Y" is "X is not a Y".
_IS_NO: Final = re.compile(
    rf"(?P<ahead>(?<![A-Za-z])[Tt]here{_BLANK})?(?<![A-Za-z])(?:is|are|was|were){_BLANK}no(?![A-Za-z])"
    rf"(?!{_BLANK}(?:longer|more|later|earlier|less|lower|fewer|greater|higher|smaller|other)(?![A-Za-z]))"
)


# In names the words stand in humps (ToldLeader) and between underscores (told_leader).
_RIDDLE: Final = re.compile(
    rf"(?<![A-Za-z])(?i:{'|'.join(phrase.replace(' ', _BLANK) for phrase in RIDDLES)})(?![A-Za-z])"
    rf"|(?<![A-Z])(?:{'|'.join(phrase.title().replace(' ', '') for phrase in RIDDLES)})(?![a-z])"
)
_REPLACED: Final = re.compile(rf"(?<!\w)(?:{'|'.join(REPLACED)})(?!\w)")


def riddles(path: str, text: str) -> Iterator[str]:
    """``path:line: what is written (what to write)`` of each forbidden phrase in a file's text."""
    for found in _RIDDLE.finditer(text):
        phrase = " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+", found[0])).lower()
        yield _line(path, text, found, RIDDLES.get(phrase, "another word"))
    for found in _IS_NO.finditer(text):
        if found["ahead"] is None:
            yield _line(path, text, found, "is not a")


def replaced_names(path: str, text: str) -> Iterator[str]:
    """``path:line: the name (today's)`` of each earlier name in a file's text."""
    for found in _REPLACED.finditer(text):
        yield _line(path, text, found, REPLACED[found[0]])


def _line(path: str, text: str, found: re.Match[str], better: str) -> str:
    return f"{path}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]!r} ({better})"
