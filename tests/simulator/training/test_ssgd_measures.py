"""Memory, communication and steps that are measured in synchronous SGD."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from simulator.analysis.memory import trace
from simulator.training.measures import measure
from simulator.training.ssgd import SSGD
from synchronous_servers import COMPUTE, MODEL, planned, run


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize(
    ("server", "inboxes", "shards"), [("gpu", 4, 1), ("worker", 3, 1), ("sharded", 3, 4)]
)
def test_a_server_holds_an_inbox_a_worker_and_the_parameters(
    server: str, inboxes: int, shards: int, pipelined: bool
) -> None:
    model = replace(MODEL, gradient_dtype="fp16")
    plan = planned(SSGD(server, pipelined=pipelined), 4, steps=3, model=model)
    peaks = trace(plan.schedule, run(plan)).peaks.tolist()
    gradients, parameters = 8, 16
    serving = (inboxes * gradients + parameters) / shards
    inbox = 0 if server == "gpu" else gradients
    assert peaks[plan.workers if server == "gpu" else 0] == pytest.approx(inbox + serving)
    if server != "sharded":
        assert peaks[1:4] == [gradients] * 3


@pytest.mark.parametrize("scatter", [False, True])
def test_serial_communication_is_all_exposed(scatter: bool) -> None:
    plan = planned(SSGD("gpu", scatter=scatter, server_memory=48.0), 3, steps=2)
    timeline = run(plan)
    measures = measure(plan, timeline)
    assert measures.hidden == pytest.approx([0] * 3, abs=1e-9)
    assert measures.computing == pytest.approx([2 * COMPUTE] * 3)
    if not scatter:
        assert measures.exposed == pytest.approx([2 * (push + 8) for push in (8, 16, 24)]), (
            "pushes queue at the server"
        )
    assert np.all(measures.exposed <= timeline.makespan - 2 * COMPUTE)
    assert measures.bubbles.total == pytest.approx([timeline.makespan - 2 * COMPUTE] * 3)


def test_a_worker_that_serves_communicates_while_others_push_and_pull() -> None:
    plan = planned(SSGD("worker", scatter=False, update=1.0, server_memory=inf), 3)
    measures = measure(plan, run(plan))
    assert measures.steps.tolist() == [COMPUTE + 16 + 1 + 16]
    assert measures.computing.tolist() == [COMPUTE + 1, COMPUTE, COMPUTE]
    assert measures.exposed.tolist() == [16 + 16, 8 + 8, 16 + 8]
    assert measures.hidden.tolist() == [0, 0, 0]
