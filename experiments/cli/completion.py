"""What a terminal completes: names of algorithms, machines, profiles, ..."""

from __future__ import annotations

from collections.abc import Callable


def completer(names: Callable[[], list[str]]) -> Callable[[str], list[str]]:
    """Complete the last of a comma-separated list."""

    def complete(incomplete: str) -> list[str]:
        head, comma, tail = incomplete.rpartition(",")
        return [f"{head}{comma}{name}" for name in names() if name.startswith(tail)]

    return complete


def algorithm_names() -> list[str]:
    from simulator.collectives import algorithms

    return list(algorithms())


def collective_names() -> list[str]:
    from simulator.collectives import algorithms

    return list(dict.fromkeys(each.collective.name for each in algorithms().values()))


def measured_names() -> list[str]:
    from experiments.measure.patterns import PROMISES

    return [*PROMISES, *algorithm_names()]


def pipeline_names() -> list[str]:
    from simulator.parallel.pipelines import orders

    return list(orders())


def machine_names() -> list[str]:
    from topologies.machines import MACHINES
    from topologies.shapes import SHAPES

    return [*SHAPES, *MACHINES]


def placement_orders() -> list[str]:
    """The placements that have a name."""
    from topologies.placement import ORDERS

    return list(ORDERS)


def backend_names() -> list[str]:
    from experiments.measure.points import BACKENDS

    return list(BACKENDS)


def library_names() -> list[str]:
    from experiments.calibration.libraries import LIBRARIES

    return list(LIBRARIES)


def strategy_names() -> list[str]:
    from simulator.training import FILES

    return list(FILES)


def profile_names() -> list[str]:
    """The profiles that are shipped."""
    from experiments.profiles import names

    return names()


def model_names() -> list[str]:
    from experiments.models.model_catalogue import MODELS

    return list(MODELS)
