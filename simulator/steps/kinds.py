"""The kinds of tasks, and their names."""

from __future__ import annotations

from typing import NamedTuple

KINDS = (
    *("forward", "backward", "backward for inputs", "backward for weights"),
    *("again", "optimizer", "reduce gradients", "gather parameters", "send"),
    *("launch", "compute", "cpu", "call", "receive"),
    *("restart", "all-reduce", "all-gather", "reduce-scatter", "broadcast", "barrier", "replicate"),
    *("scatter", "gather", "reduce", "push", "pull", "sum", "update", "copy", "hooks", "walk"),
    *("prepare", "begin", "clock", "applied"),
    *("products of attention", "attention", "MLPs and experts", "head", "small kernels"),
)
"""The kinds of tasks. The first four are the kinds of actions of a pipeline, those behind "receive"
are of training strategies, and the last five of models that are served. DDP has copies and hooks in
plans too."""
FORWARD, BACKWARD, INPUTS, WEIGHTS = range(4)
"""BACKWARD is a whole backward. INPUTS is its part for the inputs of a stage, which the stage
before waits for; WEIGHTS is its part for the weights, which no stage waits for."""
AGAIN, OPTIMIZER, REDUCE, GATHER, TRANSFER, LAUNCH, COMPUTATION, CPU, CALL, RECEIVE = range(4, 14)
RESTART, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, BARRIER, REPLICATE = range(14, 21)
SCATTER, GATHER_OUTPUTS, SUM_UP, PUSH, PULL, SUM, UPDATE, COPY, HOOKS, WALK = range(21, 31)
PREPARE, BEGIN, CLOCK, APPLIED = range(31, 35)
PRODUCTS, ATTENTION, INNER, HEAD, SMALL = range(35, len(KINDS))


class Label(NamedTuple):
    """The name of tasks that do the same."""

    kind: int
    """A row of `KINDS`. While it restarts, a worker that has failed, or waits for one, computes
    nothing."""
    words: str = ""
    """Words behind the kind, for people."""
    layer: int = -1
    """The layer of the model; -1 for none, or for all."""
    bucket: int = -1
    """The bucket of gradients; -1 for none."""

    @property
    def text(self) -> str:
        """The name, for people."""
        return f"{KINDS[self.kind]} {self.words}".strip()
