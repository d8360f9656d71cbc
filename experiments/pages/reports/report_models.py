"""The shapes of stored answers, by kind: every key is known, and every size is limited."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

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


class SweepPoint(Row):
    """A point of a sweep."""

    algorithm: Text
    ranks: Count
    size_B: Amount
    time_s: Amount
    bound_s: Amount | None
    over_bound: Amount | None = None
    algbw_Bps: Amount | None = None
    busbw_Bps: Amount | None = None
    verdict: Text


class RunRow(Row):
    """A training run among several."""

    model: Text
    strategy: Text
    ranks: Count
    step_s: Amount
    samples_per_s: Amount
    efficiency: Amount
    exposed_s: Amount
    hidden_s: Amount
    twice_bandwidth_s: Amount | None = None
    half_latency_s: Amount | None = None
    twice_compute_s: Amount | None = None


class LearntRow(Row):
    """What a network learns along a run."""

    network: Text
    strategy: Text
    target: Amount
    target_s: Amount | None
    accuracy: Amount
    idle: Amount
    seconds: Amount
    curve: Records = Field([])


class PlanRow(Row):
    """A plan of a search."""

    model: Text
    gpus: Count
    plan: Text
    bound_s: Amount
    step_s: Amount | None
    tokens_per_s: Amount | None
    mfu: Amount | None = None
    memory_bytes: Amount
    loses_to: Text | None


class Waiting(Part):
    """Who waits on which link, behind whom."""

    where: Text
    waits: Text
    behind: Texts
    seconds: Amount


Waits = Annotated[list[Waiting], Field(max_length=MOST)]


class RunAnswer(Part):
    """What `simctl run` answers."""

    summary: Record
    critical_path_s: Seconds
    contention: Waits
    busiest: Records
    worth_s: Seconds
    chosen: Texts
    ranks_simulated: int
    unsure: Texts | None = None
    grid_s: Real | None = None
    grid_error_s: Real | None = None


class GroupsAnswer(Part):
    """What `simctl run --groups` answers."""

    time_s: Amount
    wrong: Text
    calls: Answers
    contention: Waits
    grid_s: Real | None = None
    grid_error_s: Real | None = None


class WorkloadAnswer(Part):
    """What `simctl run --chakra` answers."""

    time_s: Amount
    ranks: Answers
    communication: Records
    critical_path_s: Seconds
    longest: Records
    contention: Waits


class Change(Part):
    """Seconds of a step on a changed machine."""

    first_order: Real | None
    simulated: Real | None


class Rank(Part):
    """What a rank does, in seconds of the run."""

    rank: int
    computing_s: Amount
    exposed_s: Amount
    hidden_s: Amount
    bubble_s: Seconds


class TrainAnswer(Part):
    """What `simctl train` answers on one run."""

    summary: Record
    steps_s: Numbers
    step_numbers: list[int]
    steps_lost: list[bool]
    critical_path_s: Seconds
    critical_path_by_phase_s: Seconds
    contention: Waits
    what_if_s: Annotated[dict[Text, Change], Field(max_length=100)]
    ranks: Annotated[list[Rank], Field(max_length=MOST)]
    memory: JsonValue
    staleness: Numbers
    simulated: Record
    chosen: Texts
    model_source: Text


class PlanMemory(Part):
    """What GPUs of a plan hold, in bytes."""

    advice: Text
    capacity: Amount
    missing: Amount
    fullest_device: int
    devices: Records
    over_time: JsonValue
    zero: Records


class PlanAnswer(Part):
    """What `simctl plan` answers."""

    summary: Record
    critical_path_s: Seconds
    devices: Records
    memory: PlanMemory
    router: Record
    proven: Record
    shared: Records = Field([])
    waits: Records = Field([])


class PlansAnswer(Part):
    """What `simctl plan auto` answers."""

    left_out: Annotated[dict[Text, int], Field(max_length=1000)]
    plans: Annotated[list[PlanRow], Field(min_length=1, max_length=MOST)]
    parts_s: Annotated[
        dict[Text, Annotated[dict[Text, float], Field(max_length=100)]], Field(max_length=MOST)
    ]


ANSWERS: dict[str, object] = {
    "run": RunAnswer,
    "groups": GroupsAnswer,
    "workload": WorkloadAnswer,
    "train": TrainAnswer,
    "runs": Annotated[list[RunRow], Field(min_length=1, max_length=MOST)],
    "learn": Annotated[list[LearntRow], Field(min_length=1, max_length=MOST)],
    "plan": PlanAnswer,
    "plans": PlansAnswer,
    "sweep": Annotated[list[SweepPoint], Field(min_length=1, max_length=MOST)],
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
