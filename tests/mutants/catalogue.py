"""All planted breaks, room by room."""

from typing import Final

from tests.mutants.mutant import Mutant
from tests.mutants.rooms.adversaries import ADVERSARIES
from tests.mutants.rooms.batches import BATCHES
from tests.mutants.rooms.broker_process import BROKER_PROCESS
from tests.mutants.rooms.constraints import CONSTRAINTS
from tests.mutants.rooms.daemon import DAEMON
from tests.mutants.rooms.elections import ELECTIONS
from tests.mutants.rooms.instructions import INSTRUCTIONS
from tests.mutants.rooms.locks import LOCKS
from tests.mutants.rooms.migration import MIGRATION
from tests.mutants.rooms.moves import MOVES
from tests.mutants.rooms.numbers import NUMBERS
from tests.mutants.rooms.ownership import OWNERSHIP
from tests.mutants.rooms.partitions import PARTITIONS
from tests.mutants.rooms.ready_answers import READY_ANSWERS
from tests.mutants.rooms.rings import RINGS
from tests.mutants.rooms.rollouts import ROLLOUTS
from tests.mutants.rooms.session import SESSION
from tests.mutants.rooms.signatures import SIGNATURES
from tests.mutants.rooms.store import STORE

MUTANTS: Final[tuple[Mutant, ...]] = (
    *SESSION,
    *STORE,
    *LOCKS,
    *ELECTIONS,
    *MOVES,
    *OWNERSHIP,
    *RINGS,
    *BROKER_PROCESS,
    *PARTITIONS,
    *SIGNATURES,
    *DAEMON,
    *CONSTRAINTS,
    *ADVERSARIES,
    *NUMBERS,
    *BATCHES,
    *INSTRUCTIONS,
    *ROLLOUTS,
    *MIGRATION,
    *READY_ANSWERS,
)
