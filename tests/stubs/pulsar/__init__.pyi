from enum import Enum

class Result(Enum):
    NotAllowedError = 40
