"""Tests that need an extra of simctl."""

import os
from importlib.util import find_spec

import pytest


def needs(module: str, extra: str) -> pytest.MarkDecorator:
    """Skip tests without a module, unless SIMCTL_REQUIRE names the extra that brings it."""
    required = extra in os.environ.get("SIMCTL_REQUIRE", "").split(",")
    missing = find_spec(module) is None and not required
    return pytest.mark.skipif(missing, reason=f"{module} is not installed")
