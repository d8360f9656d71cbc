"""Settings of all tests: a busy machine, or code that is compiled on first use, is no failure."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
