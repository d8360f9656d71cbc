"""Merging, copying and fresh memory on the host."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, LOOSE, Data, Effect, Parameter
from simulator.effects.memory_costs import Memory
from simulator.profile import Profile

RATES = {
    "reduction": ("γ", 1 / 8e9, LOOSE),
    "reduction_beyond": ("γ beyond cache", 1 / 5e9, LOOSE),
    "copy": ("copy", 1 / 15e9, LIKELY),
    "copy_beyond": ("copy beyond cache", 1 / 8e9, LIKELY),
    "fresh": ("fresh memory", 1 / 4e9, LIKELY),
}
"""The rates that are always fitted, by the field of Memory: parameter, start, weight."""


class HostMemory(Effect):
    """Ranks merge and copy on the host, and algorithms write memory that the allocator maps anew
    or gives back."""

    def __init__(
        self,
        data: Data,
        *,
        scratch: Mapping[str, float] | None = None,
        mapped: float = 2.0**25,
        trimmed: float = 2.0**19,
    ) -> None:
        """`scratch`: the memory that an algorithm allocates in each call, in units of V. `mapped`
        and `trimmed`: the sizes in bytes from which the allocator maps a block, and gives some
        back."""
        self.scratch = dict(scratch or {})
        self.memory = Memory(mapped=mapped, trimmed=trimmed)
        self.rates = dict(self._rates(data))
        self.parameters = tuple(self.rates.values())

    def _rates(self, data: Data) -> Iterator[tuple[str, Parameter]]:
        """The parameters that the data show, by the field of Memory."""
        for name, (parameter, start, weight) in RATES.items():
            yield name, Parameter(parameter, start, "s/B", weight)
        if any(self.scratch.get(name, 0.0) > 1 for name in data.paths.jobs.names):
            yield "back", Parameter("memory given back", 1 / 4e9, "s/B", LIKELY)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The rates, and what each algorithm allocates."""
        rates = {name: values[parameter.name] for name, parameter in self.rates.items()}
        memory = self.memory._replace(**rates)
        return replace(profile, memory=memory, scratch=self.scratch)
