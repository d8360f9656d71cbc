"""Our buckets are those of torch.nn.parallel.DistributedDataParallel, which says what its buckets
are."""

import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from itertools import pairwise
from math import inf
from typing import Any

import pytest

if "torch" not in os.environ.get("SIMCTL_REQUIRE", "").split(","):
    pytest.importorskip("torch", reason="torch is not installed")

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from experiments.models import torch_run
from experiments.models.torch_module import ModuleTraining, profile
from law_cases import by_turns
from simulator.training.buckets import DEFAULT, Bucket, initial, rebuilt
from simulator.training.model import Model

MiB = 2.0**20
CAPS = (0.0, 0.0001, 0.0006, 0.003, None)
"""MiB; None is torch's default of 25, which we call DEFAULT."""


@pytest.fixture(scope="module", autouse=True)
def _alone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GLOO_SOCKET_IFNAME", "lo")
        environment.setattr(torch_run, "COPIED", 2**10)
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        yield
        distributed.destroy_process_group()


class Turned(nn.Module):  # type: ignore[misc]
    """Registers its layers in another order than it runs them."""

    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__()
        self.widths = [8, 16, 24, 12, 4]
        for k in order:
            setattr(self, f"fc{k}", nn.Linear(self.widths[k], self.widths[k + 1]))

    def forward(self, x: Any) -> Any:
        for k in range(4):
            x = torch.relu(getattr(self, f"fc{k}")(x))
        return x


def stack(*widths: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths)))


class Recurrent(nn.Module):  # type: ignore[misc]
    """Parameters of its own between its layers, and layers whose gradients come in orders of their
    own."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.lstm, self.words = nn.Linear(8, 3), nn.LSTM(4, 8, 2), nn.Embedding(10, 4)
        self.shift = nn.Parameter(torch.zeros(8))

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(self.words(x))[0] + self.shift)


def convolutions() -> nn.Module:
    stages = [
        part
        for inputs, outputs in ((3, 8), (8, 12), (12, 6))
        for part in (nn.Conv2d(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
    ]
    return nn.Sequential(
        *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(6), nn.Linear(6, 5)
    )


def transformer() -> nn.Module:
    layers = [nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(2)]
    return nn.Sequential(*layers)


def buckets(
    module: nn.Module, inputs: Any, cap: float | None, **options: Any
) -> tuple[list[float], list[float]]:
    """The sizes of torch's buckets in the first iteration, and after it if it rebuilds them."""
    trained = DistributedDataParallel(module, bucket_cap_mb=cap, **options)
    for _ in range(3):
        trained(inputs).square().mean().backward()
    log = trained._get_ddp_logging_data()
    return _sizes(log["bucket_sizes"]), _sizes(log.get("rebuilt_bucket_sizes", ""))


def _sizes(text: str) -> list[float]:
    return [float(size) for size in text.split(",") if size]


@cache
def described(name: str) -> Model:
    """The model of a module, as the hooks see it."""
    module, inputs = (make() for make in SMALL[name])
    return profile(module, inputs, ModuleTraining(steps=1, warmup=0))


def bytes_of(buckets: list[Bucket]) -> list[float]:
    return [bucket.nbytes for bucket in buckets]


def ours(cap: float | None) -> float:
    """Bytes, whole as torch has them."""
    return DEFAULT if cap is None else float(int(cap * MiB))


SMALL: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "linears": (lambda: stack(10, 20, 30, 5, 50), lambda: torch.randn(4, 10)),
    "turned": (lambda: Turned((2, 0, 3, 1)), lambda: torch.randn(4, 8)),
    "reversed": (lambda: Turned((3, 2, 1, 0)), lambda: torch.randn(4, 8)),
    "convolutions": (convolutions, lambda: torch.randn(2, 3, 16, 16)),
    "transformer": (transformer, lambda: torch.randn(2, 5, 16)),
    "recurrent": (Recurrent, lambda: torch.randint(10, (5, 2))),
}


@pytest.mark.parametrize(("name", "cap"), by_turns(SMALL, CAPS))
def test_buckets_are_rebuilt_as_gradients_arrive(name: str, cap: float | None) -> None:
    module, inputs = (make() for make in SMALL[name])
    model = described(name)
    first, then = buckets(module, inputs, cap)
    assert first == bytes_of(rebuilt(model, inf))
    assert then == bytes_of(rebuilt(model, ours(cap)))


@pytest.mark.parametrize(("name", "cap"), by_turns(SMALL, CAPS))
def test_with_unused_parameters_to_find_they_stay_as_registered(
    name: str, cap: float | None
) -> None:
    module, inputs = (make() for make in SMALL[name])
    first, then = buckets(module, inputs, cap, find_unused_parameters=True)
    assert first == bytes_of(initial(described(name), ours(cap)))
    assert then == []


@pytest.mark.parametrize("find", [False, True])
def test_the_default_is_a_first_bucket_of_one_and_others_of_25_mebibytes(find: bool) -> None:
    """33 layers of 1 MiB and 2 KiB: the small bucket is launched first, or, of those as registered,
    last."""
    module = nn.Sequential(nn.Linear(8, 512), *(nn.Linear(512, 512) for _ in range(33)))
    model = profile(deepcopy(module), torch.randn(1, 8), ModuleTraining(steps=1, warmup=0))
    first, then = buckets(module, torch.randn(1, 8), None, find_unused_parameters=find)
    assert (first if find else then) == bytes_of((initial if find else rebuilt)(model, DEFAULT))
    assert len(first if find else then) == 3
