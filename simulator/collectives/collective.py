"""What a collective promises, and how an algorithm for it is declared."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter, getdoc, signature
from itertools import chain
from math import inf
from typing import Any, NamedTuple, SupportsIndex, TypeVar

import numpy as np

from simulator.collectives.layouts import ranks_of_each_node
from simulator.cost_models import CostModel
from simulator.schedules.schedule import Schedule
from simulator.schedules.semantics import Chosen, Data, Promise
from simulator.schedules.shifts import Shifts
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Longs, Topology

FARTHEST = 1025
"""Numbers of ranks below it are named where an algorithm does not exist for fewer."""
Bytes = Callable[[int], float]
"""From the number of ranks to bytes, in units of V."""
Shares = Callable[[int], Floats]
"""From the number of ranks to the share of V that each has, shape (ranks,)."""


OPTIONS = {
    "segments": "pieces that follow one another, like 8",
    "trees": "spanning trees of a rank, at most, like 4",
    "channels": "equal shares of V that are sent at the same time, like 4",
    "levels": "axes of the box in which the ranks are, like 3",
    "radix": "base of the numbers of the ranks, or children of a rank plus 1, like 4",
    "chunks": "most chunks of a message, like 8",
    "window": "messages of a rank in flight, like 4",
    "map_us": "microseconds that each rank maps, like 500",
    "reduce_us": "microseconds that each rank reduces, like 500",
    "servers": "CPU machines that serve, like 2",
    "shards": "workers that serve, like 4",
    "ways": "2: half of V goes round in the other direction",
}
"""What the options of algorithms mean: keyword-only parameters of a schedule with these names."""


class Pairs(NamedTuple):
    """Who needs data of whom: a row for each pair of two different ranks, in the order in which a
    rank sends."""

    source: Longs
    target: Longs
    share: Floats
    """The data, as a share of V."""


@dataclass(frozen=True)
class Collective:
    """What every algorithm of a collective must achieve, and the least that it can cost.

    The conventions are those of torch.distributed. Sizes follow nccl-tests.
    V is the output of an all-gather, the input of a reduce-scatter, and the root's buffer of a
    gather or scatter. Otherwise V is the send buffer of a rank.
    """

    name: str
    postcondition: Callable[[Data, Chosen], Promise]
    """From the workers' buffers before, shape (workers, slots), to which slots are promised and
    what they hold after. The buffers may have some slots only."""
    busbw: Bytes
    """The factor from algbw to busbw, as nccl-tests has it."""
    volume: Bytes
    """The least that all ranks together send, unless switches reduce."""
    sends: Bytes | Shares
    """The least that a rank other than the root sends: of all, or of each rank."""
    receives: Bytes | Shares
    """The least that a rank other than the root receives: of all, or of each rank."""
    root: int | None = None
    """The root, if there is one: see :func:`simulator.collectives.roots.from_root`."""
    even: str = ""
    """Of a collective with chunks of unequal sizes: the name of the one whose chunks are equal."""
    shares: Shares | None = None
    """Of a collective with chunks of unequal sizes: the chunk of each rank, as a share of V."""
    pairs: Callable[[int], Pairs] | None = None
    """Who needs data of whom, if that is all that the collective must do."""
    merges: bool = False
    """Whether one message may hold the data of several pairs, as a sum."""
    causal: bool = False
    """Whether nothing is promised but that no rank leaves before all ranks have entered."""

    @property
    def family(self) -> str:
        """The name of the collective with equal chunks."""
        return self.even or self.name


class Fitted(NamedTuple):
    """What an algorithm does on a particular machine."""

    schedule: Schedule
    topology: Topology
    """The machine. Switches that take part are further ranks of it."""
    cost: CostModel
    """The formula of this schedule."""
    chosen: tuple[str, ...] = ()
    """What the algorithm chose for the machine, in words."""


@dataclass(frozen=True)
class Algorithm:
    """The declaration of an algorithm, for the command line, the docs and the tests."""

    name: str
    collective: Collective
    schedule: Callable[..., Schedule]
    """Writes the schedule for a number of workers and V in bytes, and folded if shifts are given.
    Call :meth:`build` instead, which refuses numbers that are not `defined`."""
    formula: CostModel | Callable[..., CostModel]
    """The formula of what `schedule` writes, or the function from the options to it."""
    summary: str
    """Half a line for `simctl list algos`."""
    servers: int = 0
    """Devices that are needed in addition to the workers."""
    fit: Callable[..., Fitted] | None = None
    """Chooses rings, trees or switches for a machine, if the algorithm depends on the machine."""
    shifts: Callable[[int], Shifts | None] = lambda ranks: None
    """All shifts of a number of workers that take the schedule to itself, if there are any."""
    shifts_on: Callable[[Topology, int], Shifts | None] | None = None
    """The same on a machine, if `fit` makes them depend on it."""
    by_place: bool = False
    """Whether `schedule` takes `per_node`, the ranks of a node, and numbers the operations of a
    call by the place of their rank in its node
    (:func:`simulator.collectives.layouts.by_place`)."""
    defined: Callable[[int], bool] = lambda ranks: True
    """Whether the algorithm exists for a number of workers, like
    :func:`simulator.cost_models.is_power_of_two`."""
    recipe: tuple[Callable[..., Algorithm], tuple[Any, ...]] | None = None
    """The function that makes this algorithm of another, or of a file, and its arguments."""
    operations: Callable[..., float] | None = None
    """How many operations the schedule has for a number of workers, where schedules of few ranks do
    not tell how their number grows."""
    options: Mapping[str, int] = field(default_factory=dict, hash=False)
    """The values of the options: by default of the :data:`OPTIONS` among the keywords of
    `schedule`. `fit`, `shifts`, `shifts_on`, `defined` and `operations` may have them, too."""
    plain: Algorithm | None = None
    """The algorithm with the default options, if some have other values."""
    searched: tuple[str, ...] = ()
    """The options for which :func:`simulator.collectives.algorithm_options.best` finds values."""
    by_library: tuple[str, ...] = ()
    """The algorithms of which the library of a profile takes one for each size, if the algorithm
    stands for these."""
    origin: str = ""
    """The file or the package of an algorithm that is none of simctl's."""
    sizes: tuple[float, float] = (0.0, inf)
    """The least and the most V in bytes for which it is made, if its file says so."""

    def __post_init__(self) -> None:
        if not self.options and not self.origin:
            keywords = signature(self.schedule).parameters.values()
            options = {
                keyword.name: keyword.default
                for keyword in keywords
                if keyword.kind is Parameter.KEYWORD_ONLY and keyword.name in OPTIONS
            }
            object.__setattr__(self, "options", options)

    @cached_property
    def cost(self) -> CostModel:
        """The formula for the values of the options."""
        formula = self.formula
        return formula if isinstance(formula, CostModel) else formula(**self.options)

    @property
    def listed_name(self) -> str:
        """The name without options.

        >>> from simulator.collectives import find
        >>> find("ring:segments=4").listed_name
        'ring'
        """
        return self.name.partition(":")[0]

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """An algorithm of simctl is pickled as its name, as its functions may be lambdas. Another
        process then has one object for it, too."""
        from simulator.collectives import algorithms, find

        if self.listed_name in algorithms() and find(self.name) is self:
            return find, (self.name,)
        return self.recipe or super().__reduce_ex__(protocol)

    def build(self, ranks: int, nbytes: float) -> Schedule:
        """The schedule for `ranks` workers and V = `nbytes`, for no particular machine: `rings` is
        one ring. `simctl.run` takes what fits a machine."""
        self._check(ranks)
        return self.schedule(ranks, nbytes)

    def on(
        self, topology: Topology, ranks: int, nbytes: float, shifts: Shifts | None = None
    ) -> Fitted:
        """The schedule on a machine, made for it if the algorithm depends on the machine; with
        `shifts` written for one rank of each orbit."""
        self._check(ranks)
        options = () if shifts is None else (shifts,)
        if self.fit is None:
            places = {"per_node": ranks_of_each_node(topology, ranks)} if self.by_place else {}
            return Fitted(self.schedule(ranks, nbytes, *options, **places), topology, self.cost)
        return self.fit(topology, ranks, nbytes, *options)

    def _check(self, ranks: int) -> None:
        root = self.collective.root or 0
        if root >= ranks:
            raise InputError(f"the root is {root}: {ranks} ranks run from 0 to {ranks - 1}")
        if not self.defined(ranks):
            counts = chain(range(ranks - 1, 0, -1), range(ranks + 1, FARTHEST))
            nearest = next(filter(self.defined, counts), None)
            hint = f": take {nearest}, or another algorithm" if nearest else ""
            raise InputError(f"{self.name} does not exist for {ranks} ranks{hint}")


Write = TypeVar("Write", bound=Callable[..., Schedule])
DECLARED = defaultdict[str, dict[str, Algorithm]](dict)
"""The algorithms of each module that was imported, by name."""


def declare(
    name: str,
    collective: Collective,
    formula: CostModel | Callable[..., CostModel],
    summary: str = "",
    **more: Any,
) -> Callable[[Write], Write]:
    """A decorator that declares what a function writes as an algorithm of simctl.

    The default summary is the first sentence of the function's docstring. `more` are fields of
    :class:`Algorithm`.
    """

    def declared(schedule: Write) -> Write:
        words = summary or first_sentence(schedule)
        module = getattr(schedule, "func", schedule).__module__
        DECLARED[module][name] = Algorithm(name, collective, schedule, formula, words, **more)
        return schedule

    return declared


def first_sentence(function: Callable[..., Any]) -> str:
    """The first sentence of a docstring, without its full stop."""
    return re.split(r"\.(?:\s|$)", getdoc(function) or "")[0].replace("\n", " ")


def _everywhere(values: Data, ranks: int) -> Promise:
    promised = np.ones((ranks, values.shape[-1]), dtype=np.bool_)
    return promised, np.broadcast_to(values, promised.shape)


def _only(rank: int, values: Data, ranks: int) -> Promise:
    promised = np.zeros((ranks, values.shape[-1]), dtype=np.bool_)
    promised[rank] = True
    return promised, np.broadcast_to(values, promised.shape)


def _owned(before: Data, chosen: Chosen) -> Flags:
    """Which slots belong to the chunk that each rank owns, shape (ranks, slots)."""
    ranks, slots = len(before), before.shape[1] if chosen is None else chosen.total
    if slots % ranks:
        raise ValueError(f"{slots} slots do not cut into {ranks} chunks: make them a multiple")
    number = np.arange(slots) if chosen is None else chosen.number
    owner = number // (slots // ranks)
    return np.asarray(owner == np.arange(ranks)[:, None], dtype=np.bool_)


def _all_reduce(before: Data, chosen: Chosen = None) -> Promise:
    return _everywhere(before.sum(axis=0), len(before))


def _reduce_scatter(before: Data, chosen: Chosen = None) -> Promise:
    return _owned(before, chosen), np.broadcast_to(before.sum(axis=0), before.shape)


def _all_gather(before: Data, chosen: Chosen = None) -> Promise:
    owned = np.where(_owned(before, chosen), before, np.uint64(0))
    return _everywhere(owned.sum(axis=0), len(before))


def _reduce(before: Data, chosen: Chosen = None) -> Promise:
    return _only(0, before.sum(axis=0), len(before))


def _broadcast(before: Data, chosen: Chosen = None) -> Promise:
    return _everywhere(before[0], len(before))


def _gather(before: Data, chosen: Chosen = None) -> Promise:
    return _only(0, _all_gather(before, chosen)[1][0], len(before))


def _scatter(before: Data, chosen: Chosen = None) -> Promise:
    return _owned(before, chosen), np.broadcast_to(before[0], before.shape)


def _all_to_all(before: Data, chosen: Chosen = None) -> Promise:
    ranks, slots = before.shape
    if chosen is not None and chosen.total != slots:
        raise ValueError(f"{slots} of {chosen.total} slots: an all-to-all is proven on all")
    _owned(before, chosen)
    blocks = before.reshape(ranks, ranks, slots // ranks)
    return np.ones(before.shape, dtype=np.bool_), blocks.transpose(1, 0, 2).reshape(before.shape)


def _send_recv(before: Data, chosen: Chosen = None) -> Promise:
    return np.ones(before.shape, dtype=np.bool_), np.roll(before, 1, axis=0)


def _rest(ranks: int) -> float:
    return (ranks - 1) / ranks


def nothing(before: Data, chosen: Chosen = None) -> Promise:
    """Of a collective without data: no slot is promised."""
    return np.zeros(before.shape, dtype=np.bool_), before


def others(ranks: int) -> float:
    """V for each rank but one."""
    return ranks - 1.0


def whole(ranks: int) -> float:
    """V once."""
    return 1.0


def _share(ranks: int) -> float:
    return 1 / ranks


def none(ranks: int) -> float:
    """No bytes."""
    return 0.0


ALL_REDUCE = Collective(
    "all_reduce", _all_reduce, lambda p: 2 * _rest(p), lambda p: 2 * others(p), whole, whole
)
REDUCE_SCATTER = Collective("reduce_scatter", _reduce_scatter, _rest, others, _rest, _share)
ALL_GATHER = Collective("all_gather", _all_gather, _rest, others, _share, _rest)
REDUCE = Collective("reduce", _reduce, whole, others, whole, none, root=0)
BROADCAST = Collective("broadcast", _broadcast, whole, others, none, whole, root=0)
GATHER = Collective("gather", _gather, _rest, _rest, _share, none, root=0)
SCATTER = Collective("scatter", _scatter, _rest, _rest, none, _share, root=0)
ALL_TO_ALL = Collective("all_to_all", _all_to_all, _rest, others, _rest, _rest)
SEND_RECV = Collective("send_recv", _send_recv, whole, float, whole, whole)
