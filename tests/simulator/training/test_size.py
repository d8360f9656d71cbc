"""How many operations a run has is known before any is built."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

import ddp_steps
from law_cases import by_turns
from refusals import refusal
from simulator.training.asgd import ASGD, SSP
from simulator.training.conditions import Conditions, Failure
from simulator.training.data_parallel import DataParallel
from simulator.training.ddp import DDP
from simulator.training.local_sgd import LocalSGD
from simulator.training.model import Model
from simulator.training.plan import Setting
from simulator.training.size import OPERATION, check_size, most_operations
from simulator.training.ssgd import SSGD
from simulator.training.strategy import Strategy
from topologies.catalogue import find as machine
from topologies.errors import InputError

Free = Callable[[float], None]
MOST = 2**24
MODEL = replace(ddp_steps.MODEL, inputs=512.0, outputs=256.0)


def planned(strategy: Strategy, ranks: int, steps: int, model: Model = MODEL) -> tuple[int, float]:
    """The operations of a plan, and the most for which it was checked."""
    checked: list[float] = []

    class Checked(Setting):
        def check_size(
            self, step: float, once: float = 0.0, *, every: int = 1, repeats: bool = True
        ) -> None:
            checked.append(once + step * self.steps)

    topology = machine("star").with_links(1e9, 0.0).build(max(ranks, 2), strategy.servers(ranks))
    plan = strategy.plan(model, Checked(topology, ranks, steps))
    return len(plan.schedule), max(checked)


STRATEGIES = (
    DDP(),
    DDP(bucket=0.0, algo="halving_doubling", broadcast_buffers=False),
    DDP(find_unused=True, accumulate=3, metric=True, prepare=0.1, sync_batch_norm=True),
    DDP(bucket=0.0, startup=True),
    DDP(bucket=0.0, startup=True, find_unused=True, algo="double_tree"),
    LocalSGD(every=3),
    LocalSGD(every=2, algo="rings"),
    DataParallel(),
    DataParallel(scatter=False, chunk=1000.0),
    *(
        SSGD(server=server, pipelined=pipelined)
        for server, pipelined in product(("worker", "cpu", "sharded"), (False, True))
    ),
    SSGD(scatter=False),
    *(ASGD(server=server) for server in ("gpu", "worker", "sharded")),
    SSP(bound=1),
)


@pytest.mark.parametrize(("strategy", "job"), by_turns(STRATEGIES, [(2, 1), (4, 4), (7, 3)]))
def test_the_size_of_a_run_is_known_before_it_is_built(
    strategy: Strategy, job: tuple[int, int]
) -> None:
    ranks, steps = job
    operations, checked = planned(strategy, ranks, steps)
    assert checked == pytest.approx(operations, rel=0.02, abs=2)


@pytest.fixture
def free_for_most(free: Free) -> None:
    """As much memory as `MOST` operations take."""
    free(MOST * OPERATION.nbytes)
    assert most_operations() == MOST


@pytest.mark.usefixtures("free_for_most")
def test_what_does_not_fit_is_refused_with_steps_that_fit() -> None:
    assert refusal(check_size, 2e5, 100) == (
        "100 steps have 2e+07 operations: this takes about 80 s and 6GB of memory, and 5GB are "
        "free: take 83 steps, or go on with --force"
    )
    assert "take 80 steps" in refusal(check_size, 2e5, 100, once=1e5, repeated=3)
    with pytest.raises(InputError, match=r"^a step has 2e\+07 operations: .*: take fewer ranks"):
        check_size(2e7, 1)
    assert "take 1 step," in refusal(check_size, 1e7, 2)
    check_size(MOST / 4, 4)
    assert "take 160 steps" in refusal(check_size, 1e5, 1000, once=5e4, every=10)


@pytest.mark.usefixtures("free_for_most")
def test_the_steps_that_local_sgd_is_advised_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = machine("star").with_links(1e9, 0.0).build(250)
    strategy = LocalSGD(every=8, algo="gloo_ring")
    message = refusal(strategy.plan, MODEL, Setting(topology, 250, 800))
    steps = int(message.partition("take ")[2].split()[0])

    class Fits(Exception):
        """The run is about to be written."""

    def write(*_: object, **__: object) -> None:
        raise Fits

    monkeypatch.setattr("simulator.training.trainer.lower", write)
    with pytest.raises(Fits):
        strategy.plan(MODEL, Setting(topology, 250, steps))


@pytest.mark.usefixtures("free_for_most")
def test_a_strategy_that_repeats_no_step_is_not_refused_for_repeating() -> None:
    conditions = Conditions(failure=Failure(rank=0, step=9, restart=1.0, timeout=1.0, checkpoint=2))
    setting = Setting(machine("star").with_links(1e9, 0.0).build(2), 2, 10, conditions)
    setting.check_size(MOST / 10, repeats=False)
    with pytest.raises(InputError, match=r"10 steps have .*: take 7 steps"):
        setting.check_size(MOST / 10)
    replace(setting, force=True).check_size(MOST / 10)


@pytest.mark.usefixtures("free_for_most")
@pytest.mark.parametrize(
    ("strategy", "topology", "ranks", "steps", "message"),
    [
        (DDP(bucket=0.0), "hgx_h100:nodes=8", 64, 1000, "take 64 steps"),
        (DDP(), "hgx_h100:nodes=512", 4096, 1, "a step has"),
        (DDP(algo="nvls"), "hgx_h100:nodes=512", 4096, 1, "a step has"),
        (LocalSGD(every=1, algo="gloo_ring"), "hgx_h100:nodes=512", 4096, 1, "a step has"),
        (ASGD(), "hgx_h100:nodes=129", 1024, 10**9, "take 2340 steps"),
        (SSGD(server="sharded", pipelined=True), "hgx_h100:nodes=512", 4096, 1, "a step has"),
        (DataParallel(), "hgx_h100", 8, 10**9, "steps"),
    ],
    ids=["ddp", "rings", "nvls", "gloo_ring", "asgd", "ssgd", "dp"],
)
def test_a_refusal_comes_before_anything_large_is_built(
    strategy: Strategy, topology: str, ranks: int, steps: int, message: str
) -> None:
    built = machine(topology).build(ranks + strategy.servers(ranks))
    setting = Setting(built, ranks, steps)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message):
            strategy.plan(MODEL, setting)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
