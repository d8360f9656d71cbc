"""Settings of all tests: a busy machine, or code that is compiled on first use, is no failure.

Tensors are small: one thread, as more would mostly wait for each other.
"""

import os

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
os.environ.setdefault("OMP_NUM_THREADS", "1")
