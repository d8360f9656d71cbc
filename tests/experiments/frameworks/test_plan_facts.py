"""Plans as arguments of Megatron-LM and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.frameworks.job_file import read_job
from experiments.parallel.plan_text import Plan, parse_plan


def _arguments(plan: Plan) -> str:
    """A plan as arguments of Megatron-LM."""
    words = {
        "--tensor-model-parallel-size": plan.tp,
        "--pipeline-model-parallel-size": plan.pp,
        "--context-parallel-size": plan.cp,
        "--expert-model-parallel-size": plan.ep,
        "--micro-batch-size": plan.micro,
        "--global-batch-size": plan.batch,
        "--cp-comm-type": {"ring": "p2p", "gather": "all_gather", "ulysses": "a2a"}[plan.context],
        "--num-virtual-stages-per-pipeline-rank": plan.v,
        "--hidden-dropout": 0.1 if plan.dropout else 0.0,
        "--attention-dropout": 0.0,
    }
    flags = {
        "--bf16": True,
        "--sequence-parallel": plan.sp,
        "--use-distributed-optimizer": plan.zero == 1,
        "--overlap-grad-reduce": plan.overlap,
        "--grad-reduce-in-bf16": plan.grads == "bf16",
        "--tp-comm-overlap": plan.pieces,
        "--recompute-activations": plan.recompute == "selective",
        "--recompute-granularity full": plan.recompute == "full",
        "--no-overlap-p2p-communication": plan.v > 1 and plan.synchronous,
    }
    texts = [f"{key} {value}" for key, value in words.items()]
    return " \\\n".join([*texts, *(flag for flag, is_on in flags.items() if is_on)])


DEGREES = st.sampled_from([1, 2, 4, 8])


@given(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("tp", "pp", "cp", "micro"), DEGREES),
            "batch": st.integers(1, 10**6),
            "zero": st.sampled_from([0, 1]),
            "grads": st.sampled_from(["fp32", "bf16"]),
            "recompute": st.sampled_from(["none", "selective", "full"]),
            "context": st.sampled_from(["ring", "gather", "ulysses"]),
            "overlap": st.booleans(),
            "dropout": st.booleans(),
            "is_interleaved": st.booleans(),
            "is_synchronous": st.booleans(),
            "is_cut": st.booleans(),
        }
    )
)
def test_a_plan_comes_back_from_its_arguments(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    interleaved, synchronous, cut = (
        values.pop(key) for key in ("is_interleaved", "is_synchronous", "is_cut")
    )
    if interleaved and values["pp"] > 1:
        values |= {"v": 2, "synchronous": synchronous}
    if cut and values["tp"] > 1:
        values |= {"sp": True, "pieces": True}
    plan = Plan(**values, dp=1)
    path = tmp_path_factory.mktemp("jobs") / "run.sh"
    path.write_text(_arguments(plan))
    read = read_job(str(path))
    assert parse_plan(f"dp=1,{read.plan}") == plan
    assert read.facts.remarks == []
