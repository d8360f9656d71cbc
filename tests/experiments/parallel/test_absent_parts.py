"""Keys of plans that name layers or modules which a model does not have."""

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import Training
from experiments.parallel.plan_text import parse_plan
from grouped_cases import each_case
from refusals import refusal


@each_case(
    ("plan", "message"),
    [
        (
            "precision=fp8,bf16_layers=99",
            "bf16_layers=99 is 198 layers, and small has 6: take fewer",
        ),
        (
            "lora=99999",
            "lora=99999 is more than the 512 elements of a token of small: take fewer, "
            "like lora=16",
        ),
        (
            "fp8_activations=yes",
            "fp8_activations=yes: MLPs of small are not gated: leave it out",
        ),
        ("recompute=moe", "recompute=moe: small has no moe: leave it out"),
        (
            "recompute=mlp+mla_up_proj",
            "recompute=mlp+mla_up_proj: small has no mla_up_proj: leave it out",
        ),
    ],
)
def test_keys_that_name_what_the_model_lacks_are_refused(plan: str, message: str) -> None:
    entry = find_transformer("gpt3_1_7b:layers=6,hidden=512,heads=8,seq=256")
    training = Training("small", entry.shape, entry.size, DeviceTimes("h100", "bf16"))
    assert refusal(training.under, parse_plan(plan)) == f"plan: {message}"


def test_a_model_with_experts_computes_them_again() -> None:
    entry = find_transformer("qwen3_30b_a3b")
    training = Training("sparse", entry.shape, entry.size, DeviceTimes("h100", "bf16"))
    training.under(parse_plan("recompute=moe_act"))
    assert "has no mlp" in refusal(training.under, parse_plan("recompute=mlp"))
