"""What `simctl algos import` says of a file besides what holds for every algorithm."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from experiments.algorithm_files import contents_of
from experiments.algorithm_files.goal import GoalProgram, read_goal
from experiments.algorithm_files.msccl_lowering import FIFO, Lowering
from experiments.algorithm_files.msccl_program import MscclProgram, read_program, write_program
from experiments.algorithm_files.mscclpp_plan import read_plan
from topologies.units import format_bytes


def details(text: str) -> dict[str, str]:
    """Facts of the file that the user names, by their names."""
    path, content = contents_of(text)
    suffix = path.suffix.lower()
    if suffix == ".goal":
        return _messages(read_goal(content.decode("utf-8-sig"), path.name))
    if suffix == ".json":
        plan = read_plan(content.decode("utf-8-sig"), path.name)
        where = "in" if plan.inplace else "out of"
        blocks = sum(len(gpu.threadblocks) for gpu in plan.gpus)
        return {
            "format": f"MSCCL++, {plan.protocol}, {where} place",
            "thread blocks": str(blocks),
        }
    if suffix != ".xml":
        return {}
    program = _program(path, content)
    lowering = Lowering(program)
    most = format_bytes(program.most) if program.most else "any size"
    return {
        "format": f"MSCCL, {program.protocol}, {'in' if program.in_place else 'out of'} place",
        "sizes": f"{format_bytes(program.least)} to {most}",
        "channels": str(program.channels),
        "thread blocks": str(sum(len(gpu.blocks) for gpu in program.gpus)),
        "program steps": str(program.steps),
        "chunks": str(program.chunks),
        f"deadlock with {FIFO} FIFO slots": lowering.deadlock(FIFO) or "none",
        "deadlock without FIFO slots": lowering.deadlock(0) or "none",
    }


def rewritten(text: str) -> str | None:
    """An MSCCL file that the user names, written anew; None for other files."""
    path, content = contents_of(text)
    return write_program(_program(path, content)) if path.suffix.lower() == ".xml" else None


def _program(path: Path, content: bytes) -> MscclProgram:
    return read_program(content.decode("utf-8-sig"), path.name)


def _messages(program: GoalProgram) -> dict[str, str]:
    kinds = Counter(operation.kind for operation in program.operations)
    sent = sum(each.size for each in program.operations if each.kind == "send")
    return {
        "format": "GOAL",
        "bytes moved": format_bytes(sent),
        "messages": str(kinds["send"]),
        "computations": str(kinds["calc"]),
        "checked": "every send has its receive, and nothing waits for itself",
    }
