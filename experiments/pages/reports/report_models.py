"""The shapes of stored answers, by kind: every key is known, and every size is limited."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

MOST = 200_000
"""Entries of a list or mapping, at most."""
Text = Annotated[str, Field(max_length=10_000)]
Scalar = Annotated[bool | int | float | Text | None, Field(union_mode="left_to_right")]
Record = Annotated[dict[Text, Scalar], Field(max_length=500)]
Records = Annotated[list[Record], Field(max_length=MOST)]
Answers = Annotated[list[Record], Field(min_length=1, max_length=MOST)]
Seconds = Annotated[dict[Text, Annotated[float, Field(ge=0)]], Field(max_length=MOST)]
Numbers = Annotated[list[float], Field(max_length=MOST)]
Texts = Annotated[list[Text], Field(max_length=MOST)]


class Part(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Waiting(Part):
    """Who waits on which link, behind whom."""

    where: Text
    waits: Text
    behind: Texts
    seconds: float


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
    grid_s: float | None = None
    grid_error_s: float | None = None


class GroupsAnswer(Part):
    """What `simctl run --groups` answers."""

    time_s: float
    wrong: Text
    calls: Answers
    contention: Waits
    grid_s: float | None = None
    grid_error_s: float | None = None


class WorkloadAnswer(Part):
    """What `simctl run --chakra` answers."""

    time_s: float
    ranks: Answers
    communication: Records
    critical_path_s: Seconds
    longest: Records
    contention: Waits


class Change(Part):
    """Seconds of a step on a changed machine."""

    first_order: float | None
    simulated: float | None


class Rank(Part):
    """What a rank does, in seconds of the run."""

    rank: int
    computing_s: float
    exposed_s: float
    hidden_s: float
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
    capacity: float
    missing: float
    fullest_device: int
    devices: Records
    over_time: JsonValue
    zero: Records


class PlanAnswer(Part):
    """What `simctl train --plan` answers."""

    summary: Record
    critical_path_s: Seconds
    devices: Records
    memory: PlanMemory
    router: Record
    proven: Record


class PlansAnswer(Part):
    """What `simctl train --plan auto` answers."""

    left_out: Annotated[dict[Text, int], Field(max_length=1000)]
    plans: Answers
    parts_s: Annotated[
        dict[Text, Annotated[dict[Text, float], Field(max_length=100)]], Field(max_length=MOST)
    ]


LearntRun = dict[Text, Scalar | Records]
ANSWERS: dict[str, object] = {
    "run": RunAnswer,
    "groups": GroupsAnswer,
    "workload": WorkloadAnswer,
    "train": TrainAnswer,
    "runs": Answers,
    "learn": Annotated[list[LearntRun], Field(min_length=1, max_length=MOST)],
    "plan": PlanAnswer,
    "plans": PlansAnswer,
    "sweep": Answers,
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
