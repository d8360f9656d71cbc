"""What is known of algorithms that runs were told to take."""

from typing import Annotated, NamedTuple

from annotated_types import Len

from simulator.effects.parameter_units import Count, Word


class Ineffective(NamedTuple):
    """A label that had no effect: runs that were told to take one algorithm took another one."""

    label: Word
    """The algorithm that the runs were told to take."""
    collective: Word
    """The collective of the runs."""
    ran: Annotated[tuple[Word, ...], Len(1, 64)]
    """The algorithms that the runs may have taken instead."""
    ranks: Count | None = None
    """The number of ranks. None is every number that was measured."""
    nodes: Count | None = None
    """The number of nodes. None is every number that was measured."""
    library: Annotated[str, Len(0, 200)] = ""
    """The library in words. Empty is any library."""

    def covers(
        self, label: str, collective: str, ranks: int, nodes: int | None = None, library: str = ""
    ) -> bool:
        """Whether the entry is about runs with such a label. What is unknown of the runs, or not
        stored, agrees."""
        stored = self.ranks, self.nodes, self.library or None
        facts = ranks, nodes, library or None
        same = all(
            value is None or fact is None or value == fact
            for value, fact in zip(stored, facts, strict=True)
        )
        return same and (label.lower(), collective) == (self.label.lower(), self.collective)
