"""Stories that are run on both engines."""

import pytest

from simulator.engines import Engine


@pytest.fixture(params=["reference", "compiled"])
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen
