"""An MSCCL file as an algorithm."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from experiments.algorithm_files.free_names import free_name, of_file
from experiments.algorithm_files.msccl.lowering import Lowering, in_order_of_chunks
from experiments.algorithm_files.msccl.msccl_program import Program
from simulator.collectives import Algorithm, Collective, algorithms, of_collective
from simulator.schedules.semantics import Chosen, Data, Promise, WrongResult, check
from topologies.errors import InputError


def algorithm_of(program: Program, loops: int = 1) -> Algorithm:
    """A program as an algorithm for its number of ranks, whose chunks move in so many pieces.

    Raises InputError with the place if it cannot run. It is proven when it is simulated.
    """
    ranks = len(program.gpus)
    lowering = Lowering(program, loops)
    blocks = sum(len(gpu.blocks) for gpu in program.gpus)
    summary = (
        f"MSCCL, {program.protocol}, {program.channels} channels, {blocks} thread blocks of "
        f"{ranks} GPUs"
    )
    collective = _promise(program) if program.collective == "custom" else _named(program)
    pieces = _in_pieces(collective, program.chunks, loops)
    made = of_file(free_name(program.name, "xml"), pieces, lowering.schedule, summary, ranks)
    return replace(made, sizes=(program.least, program.most or inf))


def _named(program: Program) -> Collective:
    return of_collective(program.collective, algorithms())[0].collective


def _promise(program: Program) -> Collective:
    """What a custom program computes: the first collective that it is."""
    schedule = Lowering(program).schedule()
    for collective in dict.fromkeys(each.collective for each in algorithms().values()):
        try:
            check(schedule, collective)
        except (WrongResult, ValueError):
            continue
        return collective
    raise InputError(
        f"{program.name}: coll is custom, and it computes no collective that simctl knows"
    )


def _in_pieces(collective: Collective, chunks: int, loops: int) -> Collective:
    """The collective on slots that are ordered loop by loop."""
    if loops == 1:
        return collective
    order = in_order_of_chunks(chunks, loops)

    def postcondition(before: Data, chosen: Chosen = None) -> Promise:
        promised, after = collective.postcondition(before[:, order], chosen)
        back = order.argsort()
        return promised[:, back], after[:, back]

    return replace(collective, postcondition=postcondition)
