"""The shapes of stored answers, by kind: every key is known, and every size is limited."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model

from simulator.parallel.passes import STREAMS

MOST = 200_000
"""Entries of a list or mapping, at most."""
Text = Annotated[str, Field(max_length=10_000)]
LARGEST = 1e30
"""Numbers are at most so far from 0."""
Whole = Annotated[int, Field(ge=-(2**62), le=2**62)]
Real = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, Field(ge=0, le=LARGEST)]
Count = Annotated[int, Field(ge=1, le=2**31)]
Scalar = Annotated[bool | Whole | Real | Text | None, Field(union_mode="left_to_right")]
Record = Annotated[dict[Text, Scalar], Field(max_length=500)]
Records = Annotated[list[Record], Field(max_length=MOST)]
Answers = Annotated[list[Record], Field(min_length=1, max_length=MOST)]
Seconds = Annotated[dict[Text, Amount], Field(max_length=MOST)]
Numbers = Annotated[list[Real], Field(max_length=MOST)]
Texts = Annotated[list[Text], Field(max_length=MOST)]


class Part(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Row(BaseModel):
    """A row of a table: some columns are needed, others may be missing."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Scalar]


def part(base: type[BaseModel] = Part, **fields: Any) -> Any:
    """A mapping with these keys and the types of their values; (type, value) for a key that may be
    missing."""
    shapes: dict[str, Any] = {
        name: each if isinstance(each, tuple) else (each, ...) for name, each in fields.items()
    }
    return create_model(base.__name__, __base__=base, **shapes)


def several(kind: Any, least: int = 0) -> Any:
    """A list."""
    return Annotated[list[kind], Field(min_length=least, max_length=MOST)]


def rows(**columns: Any) -> Any:
    """A table with at least one row, and at least these columns."""
    return several(part(Row, **columns), 1)


def named(kind: Any, most: int = MOST) -> Any:
    """A mapping from names."""
    return Annotated[dict[Text, kind], Field(max_length=most)]


GRID: dict[str, Any] = {"grid_s": (Real | None, None), "grid_error_s": (Real | None, None)}
WAITS = several(part(where=Text, waits=Text, behind=Texts, seconds=Amount))
"""Who waits on which link, behind whom."""
CHANGE = part(first_order=Real | None, simulated=Real | None)
"""Seconds of a step on a changed machine."""
RANK = part(rank=int, computing_s=Amount, exposed_s=Amount, hidden_s=Amount, bubble_s=Seconds)
"""What a rank does, in seconds of the run."""
HELD = part(
    advice=Text,
    capacity=Amount,
    missing=Amount,
    fullest_device=int,
    devices=Records,
    over_time=JsonValue,
    zero=Records,
)
"""What GPUs of a plan hold, in bytes."""
STEP = {"model": Text, "step_s": Amount}
SPENT = dict.fromkeys(("computing_s", "exposed_s", "hidden_s"), Amount)
TRAINED = part(
    Row,
    **STEP | SPENT,
    ranks=Count,
    restarting_s=Amount,
    input_s=(Amount, 0.0),
    redundant_B=Amount | None,
    epochs=(int, 1),
)
PLANNED = part(
    Row,
    **STEP | SPENT,
    optimizer_s=Amount,
    launching_s=Amount,
    restarting_s=(Amount | None, None),
    input_s=(Amount | None, None),
    plain_step_s=(Amount | None, None),
    transfers_s=Amount | None,
    model_error=Amount | None,
    measured=Text,
)
DEVICE = part(
    Row,
    **{
        f"{kind}_{name}_s": Amount
        for kind in ("exposed", "hidden")
        for name in STREAMS
        if name not in ("compute", "host")
    },
)
ANSWERS: dict[str, Any] = {
    "run": part(
        summary=Record,
        critical_path_s=Seconds,
        contention=WAITS,
        busiest=Records,
        worth_s=Seconds,
        chosen=Texts,
        ranks_simulated=int,
        unsure=(Texts | None, None),
        **GRID,
    ),
    "groups": part(time_s=Amount, wrong=Text, calls=Answers, contention=WAITS, **GRID),
    "workload": part(
        time_s=Amount,
        ranks=Answers,
        communication=Records,
        critical_path_s=Seconds,
        longest=Records,
        contention=WAITS,
    ),
    "train": part(
        summary=TRAINED,
        steps_s=Numbers,
        step_numbers=list[int],
        steps_lost=list[bool],
        critical_path_s=Seconds,
        critical_path_by_phase_s=Seconds,
        contention=WAITS,
        what_if_s=named(CHANGE, 100),
        ranks=several(RANK),
        memory=JsonValue,
        staleness=Numbers,
        simulated=part(ranks=int, collectives=int, replayed=int, rounds=int),
        chosen=Texts,
        model_source=Text,
    ),
    "runs": rows(
        **STEP,
        strategy=Text,
        ranks=Count,
        samples_per_s=Amount,
        efficiency=Amount,
        exposed_s=Amount,
        hidden_s=Amount,
    ),
    "learn": rows(
        network=Text,
        strategy=Text,
        target=Amount,
        target_s=Amount | None,
        accuracy=Amount,
        idle=Amount,
        seconds=Amount,
        curve=(Records, Field([])),
    ),
    "plan": part(
        summary=PLANNED,
        critical_path_s=Seconds,
        devices=several(DEVICE, 1),
        memory=HELD,
        router=Record,
        proven=Record,
        shared=(Records, Field([])),
        waits=(Records, Field([])),
    ),
    "plans": part(
        left_out=named(int, 1000),
        plans=rows(
            **STEP | {"step_s": Amount | None},
            gpus=Count,
            plan=Text,
            bound_s=Amount,
            tokens_per_s=Amount | None,
            memory_bytes=Amount,
            loses_to=Text | None,
        ),
        parts_s=named(named(float, 100)),
    ),
    "sweep": rows(
        algorithm=Text,
        ranks=Count,
        size_B=Amount,
        time_s=Amount,
        bound_s=Amount | None,
        verdict=Text,
    ),
}
"""The shape of each kind that is stored."""


class Origin(Part):
    """How an answer was made."""

    versions: Annotated[dict[Text, Text], Field(max_length=100)]
    parameters: Record
    files: Annotated[dict[Text, Text], Field(max_length=10_000)]
    command: Texts


class StoredResult(Part):
    """A file of `--out FILE.json`."""

    simctl: int
    """The version of the format."""
    kind: Text
    origin: Origin
    report: JsonValue
    left_out: Texts
    spans: JsonValue = None
    use: JsonValue = None
    memory: JsonValue = None
