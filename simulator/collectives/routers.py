"""How much each rank gets: a ramp, a skewed router with a seed, or a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from topologies.errors import InputError
from topologies.topology import Floats, Longs
from topologies.units import parse_number

TOKENS = 512
"""Tokens of each rank that a router is asked for."""


class Router(ABC):
    """Sizes of chunks and blocks, as shares of V."""

    @abstractmethod
    def matrix(self, ranks: int) -> Floats:
        """What each rank has for each rank, shape (ranks, ranks). Rows add up to 1 on average."""

    def chunks(self, ranks: int) -> Floats:
        """The chunk of each rank, shape (ranks,): the mean of all senders. They add up to 1."""
        return np.asarray(self.matrix(ranks).mean(axis=0), dtype=np.float64)


def parse_zipf(text: str) -> float:
    """The exponent of "zipf:EXPONENT". Raises InputError for another text."""
    name, _, exponent = text.partition(":")
    if name != "zipf" or not exponent:
        raise InputError("expected zipf:EXPONENT, like zipf:1.2")
    if not 0 <= (power := parse_number(exponent)) <= 10:
        raise InputError(f"the exponent is {exponent[:40]}, expected 0 to 10")
    return power


@dataclass(frozen=True)
class Ramp(Router):
    """Rank r gets r + 1 parts, and rank s sends in proportion to s + 1."""

    def chunks(self, ranks: int) -> Floats:
        parts = np.arange(1.0, ranks + 1)
        return np.asarray(parts / parts.sum(), dtype=np.float64)

    def matrix(self, ranks: int) -> Floats:
        chunks = self.chunks(ranks)
        return np.asarray(ranks * chunks[:, None] * chunks, dtype=np.float64)


RAMP = Ramp()


@dataclass(frozen=True)
class Zipf(Router):
    """A router of tokens to experts, one expert a rank. The expert of popularity k gets a share
    that falls as k^-exponent. The seed says which rank has which popularity.

    >>> Zipf(1.0, seed=0).chunks(3).round(3).tolist()
    [0.182, 0.545, 0.273]
    """

    exponent: float
    seed: int = 0

    def chunks(self, ranks: int) -> Floats:
        order = np.random.default_rng(self.seed).permutation(ranks)
        weights = (order + 1.0) ** -self.exponent
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def matrix(self, ranks: int) -> Floats:
        return np.tile(self.chunks(ranks), (ranks, 1))


@dataclass(frozen=True)
class Tokens(Router):
    """A router that sends each token to `top` experts in at most `nodes` nodes, as DeepSeek-V3's.

    The popularity of an expert is that of :class:`Zipf`. A node is `per_node` consecutive ranks. A
    token likes each expert by the logarithm of its popularity plus noise. It
    goes to the nodes with the highest sums over their top/nodes best experts, and there to the best
    experts. V is what a rank sends if each of its tokens goes to each expert by itself.

    After DeepSeek-AI, DeepSeek-V3 Technical Report, arXiv 2412.19437, section 2.1.2.
    """

    exponent: float
    seed: int = 0
    top: int = 8
    nodes: int = 0
    """At most so many nodes for a token; 0 for any number."""
    per_node: int = 8
    experts: int = 1
    """Experts of each rank."""
    tokens: int = TOKENS
    """Tokens of each rank."""

    @property
    def copies(self) -> int:
        """What a rank sends if each of its tokens goes to each expert by itself: V in tokens."""
        return self.top * self.tokens

    def matrix(self, ranks: int) -> Floats:
        """A token counts for each of its experts on a rank."""
        copies = self.expert_counts(ranks).reshape(ranks, ranks, self.experts).sum(axis=2)
        return np.asarray(copies / self.copies, dtype=np.float64)

    def counts(self, ranks: int) -> Longs:
        """The tokens of each rank that need each rank, shape (ranks, ranks)."""
        return _counts(self, ranks).ranks

    def node_counts(self, ranks: int) -> Longs:
        """The tokens of each rank for any other rank of each node, shape (ranks, nodes)."""
        return _counts(self, ranks).nodes

    def expert_counts(self, ranks: int) -> Longs:
        """The tokens of each rank for each expert, shape (ranks, experts)."""
        return _counts(self, ranks).experts


class _Counts(NamedTuple):
    """The tokens of each rank, a row each."""

    ranks: Longs
    """Those that need each rank."""
    nodes: Longs
    """Those that need another rank of each node."""
    experts: Longs
    """Those that need each expert."""


@lru_cache(maxsize=4)
def _counts(router: Tokens, ranks: int) -> _Counts:
    number = ranks * router.experts
    starts = np.arange(0, number, router.per_node * router.experts)
    sizes = np.diff(starts, append=number)
    limit = min(router.nodes or len(starts), len(starts))
    least = int(np.sort(sizes)[:limit].sum())
    if least < router.top:
        raise InputError(
            f"--skew: top is {router.top}, and nodes={limit} of {ranks} ranks may have only "
            f"{least} experts: take a lower top, or more nodes or ranks"
        )
    like = np.log(Zipf(router.exponent, router.seed).chunks(number))
    noise = np.random.default_rng([router.seed, ranks])
    to_ranks, to_nodes, to_experts = list[Longs](), list[Longs](), list[Longs]()
    firsts = np.arange(0, number, router.experts)
    for source in range(ranks):
        score = like + noise.gumbel(size=(router.tokens, number))
        if limit < len(starts):
            best = _node_scores(score, starts, -(-router.top // limit))
            far = np.argsort(np.argsort(-best, axis=1), axis=1) >= limit
            score[np.repeat(far, sizes, axis=1)] = -np.inf
        chosen = np.zeros(score.shape, dtype=np.bool_)
        np.put_along_axis(chosen, np.argsort(-score, axis=1)[:, : router.top], True, axis=1)
        to_experts.append(chosen.sum(axis=0))
        to_ranks.append(np.logical_or.reduceat(chosen, firsts, axis=1).sum(axis=0))
        chosen[:, firsts[source] : firsts[source] + router.experts] = False
        to_nodes.append(np.logical_or.reduceat(chosen, starts, axis=1).sum(axis=0))
    return _Counts(np.array(to_ranks), np.array(to_nodes), np.array(to_experts))


def _node_scores(score: Floats, starts: Longs, best: int) -> Floats:
    """The sum of the `best` highest scores of each node, shape (tokens, nodes)."""
    nodes = np.split(score, starts[1:], axis=1)
    return np.stack([np.sort(node, axis=1)[:, -best:].sum(axis=1) for node in nodes], axis=1)


@dataclass(frozen=True)
class Returned(Router):
    """Sends back what a router has sent."""

    router: Router

    def matrix(self, ranks: int) -> Floats:
        return np.ascontiguousarray(self.router.matrix(ranks).T)


@dataclass(frozen=True)
class SizeTable(Router):
    """Sizes from a file: what row s has in column r is for rank r, from rank s. Chunks have one
    row."""

    name: str
    rows: tuple[tuple[float, ...], ...]

    @cached_property
    def _sizes(self) -> Floats:
        return np.array(self.rows)

    @property
    def nbytes(self) -> float:
        """V in bytes: what a rank sends on average."""
        return float(self._sizes.sum() / len(self.rows))

    def chunks(self, ranks: int) -> Floats:
        if self._sizes.shape != (1, ranks):
            raise InputError(
                f"{self.name}: {self._shape}, and {ranks} chunks need 1 row of {ranks}"
            )
        return np.asarray(self._sizes[0] / self._sizes.sum(), dtype=np.float64)

    def matrix(self, ranks: int) -> Floats:
        if self._sizes.shape != (ranks, ranks):
            raise InputError(
                f"{self.name}: {self._shape}, and {ranks} ranks need {ranks} of {ranks}"
            )
        return np.asarray(self._sizes / self.nbytes, dtype=np.float64)

    @property
    def _shape(self) -> str:
        rows, columns = self._sizes.shape
        return f"{rows} {'row' if rows == 1 else 'rows'} of {columns} numbers"
