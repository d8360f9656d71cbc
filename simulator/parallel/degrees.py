"""How a plan cuts a job: the degrees of its parallelisms, and the groups of ranks that these
make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from topologies.errors import InputError
from topologies.topology import Ints

AXES = ("tp", "cp", "dp", "pp")
ORDER = "tp-cp-dp-pp"
KINDS = {
    "tp": ("tp",),
    "cp": ("cp",),
    "dp": ("dp",),
    "pp": ("pp",),
    "replica": ("tp", "cp"),
    "data": ("cp", "dp"),
    "ep": ("cp", "dp"),
    "experts": ("cp", "dp"),
    "etp": ("tp",),
}
"""The axes along which the ranks of a group differ, by the kind of group.

The ranks of a "replica" group compute the same samples on a device of the pipeline: they wait for
each other in each layer. The ranks of a "data" group hold the same parameters of dense layers,
those of an "experts" group the same experts. With an `etp` other than `tp`, the ranks of a device
of the pipeline are laid out anew for experts: "etp" innermost, then "ep", then "experts".

A group of any kind may be cut in runs of ranks: "data/8" are runs of 8 ranks of each "data" group,
and in a "data%8" group are the ranks that have the same place in their run.

In a "0 to 1" group are a rank of device 0 of the pipeline and its peer of device 1."""


@dataclass(frozen=True)
class Degrees:
    """The degrees of a plan. Raises InputError for degrees that make no sense.

    >>> Degrees(dp=2, tp=2, pp=2).groups("dp").tolist()
    [[0, 2], [1, 3], [4, 6], [5, 7]]
    """

    dp: int = 1
    """Data parallel: the copies of the model."""
    tp: int = 1
    """Tensor parallel: the ranks that share each layer."""
    pp: int = 1
    """Pipeline parallel: the devices of a pipeline."""
    cp: int = 1
    """Context parallel: the ranks that share each sequence."""
    ep: int = 1
    """Expert parallel: the ranks of `dp` times `cp` that share the experts of a layer."""
    order: str = ORDER
    """The parallelisms from the innermost to the outermost: ranks that follow each other differ in
    the first one."""
    etp: int = 0
    """Tensor parallel of experts: the ranks that share each expert. 0: as many as `tp`."""

    def __post_init__(self) -> None:
        for key in ("dp", "tp", "pp", "cp", "ep", "etp"):
            degree = getattr(self, key)
            if not isinstance(degree, int) or degree < (key != "etp"):
                raise InputError(f"{key} is {degree}: a whole number of 1 or more")
        if sorted(self.order.split("-")) != sorted(AXES):
            raise InputError(f"order {self.order[:40]!r}: each of {', '.join(AXES)}, like {ORDER}")
        size = self.dp * self.cp
        if not self._expert_layout and size % self.ep:
            raise InputError(
                f"ep is {self.ep}: it divides dp x cp = {size}, like {divisor(size, self.ep)}"
            )
        if size * self.tp % (self.ep * self.expert_ranks):
            raise InputError(
                f"ep x etp is {self.ep} x {self.etp}: it divides dp x cp x tp = {size * self.tp}, "
                f"like etp=1 and ep={divisor(size * self.tp, self.ep)}"
            )

    def __str__(self) -> str:
        return (
            ",".join(f"{axis}={getattr(self, axis)}" for axis in ("dp", "tp", "pp"))
            + "".join(
                f",{axis}={getattr(self, axis)}" for axis in ("cp", "ep") if getattr(self, axis) > 1
            )
            + (f",etp={self.etp}" if self.etp else "")
        )

    @property
    def expert_ranks(self) -> int:
        """The ranks that share each expert."""
        return self.etp or self.tp

    @property
    def _expert_layout(self) -> bool:
        """Whether the ranks of a device of the pipeline are laid out anew for experts."""
        return self.expert_ranks != self.tp

    @property
    def ranks(self) -> int:
        """The ranks of the job."""
        return self.dp * self.tp * self.pp * self.cp

    @property
    def devices(self) -> Ints:
        """The device of the pipeline of each rank, shape (ranks,)."""
        device = np.empty(self.ranks, dtype=np.int32)
        device[self.groups("pp")] = np.arange(self.pp)
        return device

    def check(self, gpus: int) -> None:
        if self.ranks == gpus:
            return
        raise InputError(
            f"dp x tp x pp x cp = {self.dp} x {self.tp} x {self.pp} x {self.cp} = {self.ranks}, "
            f"and there are {gpus} GPUs: take {_other_degrees(self, gpus)}"
        )

    @lru_cache(maxsize=4096)  # noqa: B019
    def size(self, kind: str) -> int:
        """The ranks of a group of a kind."""
        if " to " in kind:
            return len(set(self._pair(kind)))
        name, cut, number = _cut(kind)
        if name == "experts":
            whole = self.dp * self.cp * self.tp // (self.ep * self.expert_ranks)
        elif name in ("ep", "etp"):
            whole = self.ep if name == "ep" else self.expert_ranks
        else:
            whole = prod(getattr(self, axis) for axis in KINDS[name])
        if cut and (not 1 <= number <= whole or whole % number):
            raise InputError(
                f"runs of {number} ranks: {name} groups have {whole}, so take "
                f"{divisor(whole, max(number, 1))}"
            )
        return {"": whole, "/": number, "%": whole // (number or 1)}[cut]

    def groups(self, kind: str) -> Ints:
        """The ranks of all groups of a kind, shape (groups, ranks of a group), in ascending order
        within a group. That of the first device comes first in a group of two devices."""
        if " to " in kind:
            return self.groups("pp")[:, self._pair(kind)]
        (name, cut, number), size = _cut(kind), self.size(kind)
        outward = self.order.split("-")[::-1]
        ranks = np.arange(self.ranks, dtype=np.int32)
        grid = ranks.reshape([getattr(self, axis) for axis in outward])
        anew = self._expert_layout and name in ("ep", "etp", "experts")
        axes = AXES[:3] if anew else KINDS[name]
        # The axes of a group come last.
        rows = grid.transpose(sorted(range(len(outward)), key=lambda k: outward[k] in axes))
        if anew:
            rows = rows.reshape(-1, self.size("experts"), self.ep, self.expert_ranks)
            rows = np.moveaxis(rows, ("experts", "ep", "etp").index(name) + 1, -1)
        elif name == "experts":
            rows = rows.reshape(-1, self.size(name), self.ep).swapaxes(1, 2)
        if cut:
            rows = rows.reshape(-1, self.size(name) // number, number)
            rows = rows.swapaxes(1, 2) if cut == "%" else rows
        return np.ascontiguousarray(rows.reshape(-1, size))

    @lru_cache(maxsize=256)  # noqa: B019
    def meets(self, kind: str) -> Ints:
        """Which ranks of the groups of a kind wait for each other behind a call: those with the
        same number. Shape (groups, ranks of a group).

        Ranks of a replica meet in the next layer. Those of a "data" group meet in the next call of
        their stream, and "experts" groups in the calls of "data" groups between theirs. Of an
        exchange of experts ranks go on with what has arrived.
        """
        groups = self.groups(kind)
        if kind.startswith(("data", "experts")):
            number = np.arange(len(groups), dtype=np.int32) * kind.startswith("data")
            return np.repeat(number[:, None], groups.shape[1], axis=1)
        replica, replicas = np.empty(self.ranks, dtype=np.int32), self.groups("replica")
        replica[replicas] = np.arange(len(replicas))[:, None]
        # Both ranks of a message count for the replica that sends it.
        return replica[groups[:, [0, 0]] if " to " in kind else groups]

    def _pair(self, kind: str) -> list[int]:
        """The two devices of a kind like "0 to 1"."""
        pair = [int(device) for device in kind.split(" to ")]
        if not 0 <= min(pair) <= max(pair) < self.pp:
            raise InputError(f"device {kind}: the pipeline has {self.pp} devices")
        return pair


def _cut(kind: str) -> tuple[str, str, int]:
    """The kind of group that is cut in runs, "/", "%" or "" if it is not, and the ranks of a
    run."""
    cut = "/" if "/" in kind else "%" if "%" in kind else ""
    name, _, number = kind.partition(cut) if cut else (kind, "", "")
    if name not in KINDS:
        raise InputError(f"no kind of group {name[:40]!r}: one of {', '.join(KINDS)}")
    return name, cut, int(number) if number.isdecimal() else 0


def divisor(number: int, most: int) -> int:
    """The largest divisor of `number` up to `most`.

    >>> divisor(2304, 7)
    6
    """
    return next(size for size in range(min(most, number), 0, -1) if number % size == 0)


def _other_degrees(degrees: Degrees, gpus: int) -> str:
    """Degrees that multiply to `gpus`: only dp is another, or dp and one more, or as few as
    possible."""
    rest = degrees.ranks // degrees.dp
    if gpus % rest == 0:
        return f"dp={gpus // rest}"
    for axis in ("pp", "tp", "cp"):
        most = getattr(degrees, axis)
        if gpus % (rest // most) == 0:
            degree = divisor(gpus // (rest // most), most)
            return f"{axis}={degree} and dp={gpus // (rest // most) // degree}"
    words = []
    for axis in ("tp", "cp", "pp"):
        degree = divisor(gpus, getattr(degrees, axis))
        gpus //= degree
        if degree != getattr(degrees, axis):
            words.append(f"{axis}={degree}")
    return f"{', '.join(words)} and dp={gpus}"
