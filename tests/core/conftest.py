"""Properties are judged by their answers: a busy machine is no reason to fail."""

from hypothesis import settings

settings.register_profile("core", deadline=None)
settings.load_profile("core")
