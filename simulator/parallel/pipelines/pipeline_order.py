"""The declaration of an order of pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from simulator.parallel.pipelines.pipeline import Pipeline
from topologies.errors import InputError, nearest_name
from topologies.units import parse_whole

HELP = {
    "chunks": "stages of a device, like 2",
    "memory": "a multiple of what 1F1B keeps, like 2",
    "forward": "T_F in any unit, like 18",
    "inputs": "T_B in that unit, like 18",
    "weights": "T_W in that unit, like 9",
    "transfer": "what a transfer takes in that unit, like 1",
    "kept": "percent of the activations that the backward for weights needs, like 50",
}


@dataclass(frozen=True)
class PipelineOrder:
    """An order of actions, by name."""

    name: str
    build: Callable[..., Pipeline]
    """From devices and micro-batches, and the options by name, to a pipeline."""
    summary: str
    """What the order is, in a few words."""
    options: Mapping[str, int] = field(default_factory=dict)
    """The defaults of its options."""

    def with_options(self, text: str) -> PipelineOrder:
        """The order with other values of its options, like "chunks=4". Raises InputError for an
        option that it does not have, and for a value that is no whole number of 1 or more."""
        options = dict(self.options)
        for part in text.split(","):
            key, equals, value = part.partition("=")
            if key not in options:
                hint = nearest_name(key, options, f"it has {', '.join(options) or 'none'}")
                raise InputError(f"pipeline {self.name} has no option {key[:80]!r}: {hint}")
            if not equals:
                raise InputError(f"pipeline {self.name}: {key} has no value: {HELP[key]}")
            least = min(1, self.options[key])
            options[key] = parse_whole(value)
            if options[key] < least:
                raise InputError(f"pipeline {self.name}: {key} is {value}: {least} or more")
        return PipelineOrder(self.name, partial(self.build, **options), self.summary, options)
