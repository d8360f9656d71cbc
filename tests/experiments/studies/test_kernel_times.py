"""Models of kernels learnt from made-up times, and files that are refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.models.kernel_times.kernel_model import Chip, Key
from experiments.models.kernel_times.products import PRODUCTS
from experiments.studies.kernel_fit import Measured, Smoothness, fit, learn, left_out, shared_fit
from experiments.studies.kernel_rows import grouped_products, products
from experiments.studies.kernel_times import SOURCES, main, relatives
from grouped_cases import each_case
from published_tables import write_tables
from refusals import refusal
from topologies.errors import InputError

CHIP = Chip(300e12, 2e12, 100, 2)
SMOOTH = Smoothness(0.1, (2.0, 3.0, 3.0))
HEADING = "machine,framework,version,kernel,precision,m,n,k,time_us\n"


def measured(launch: float, slower: float = 0.0, number: int = 60, chip: Chip = CHIP) -> Measured:
    """Kernels at the usual values but for the launch, slower by a smooth factor."""
    random = np.random.default_rng(3)
    sizes = {name: np.exp2(random.integers(5, 15, number)) for name in "mnk"}
    sizes["quantised"] = np.zeros(number)
    values = {name: value.usual for name, value in PRODUCTS.values.items()} | {"launch": launch}
    times = PRODUCTS.formula(sizes, values, chip) * np.exp(slower * np.log2(sizes["k"]) / 10)
    return Measured(chip, sizes, times, (sizes["n"] * 2**20 + sizes["k"]).astype(np.int64))


def test_a_fit_finds_the_launch_that_made_the_times() -> None:
    model = fit(PRODUCTS, [measured(20e-6)], SMOOTH, PRODUCTS.values)
    assert model.values["launch"] == pytest.approx(20e-6, rel=0.05)
    assert model.rows == 60


def test_the_grid_learns_what_the_formula_does_not_say() -> None:
    kernels = measured(3e-6, slower=0.2)
    model = fit(PRODUCTS, [kernels], SMOOTH, PRODUCTS.values)
    errors = np.log(model.seconds(kernels.sizes) / kernels.seconds)
    assert np.median(np.abs(errors)) < 0.01
    assert np.ptp(model.grid) > 0


def test_shapes_left_out_are_predicted_by_the_others() -> None:
    groups = {Key("a", "bf16", "x"): measured(5e-6, 0.1)}
    learnt = learn(PRODUCTS, groups, SMOOTH)
    errors = left_out(PRODUCTS, groups, SMOOTH, learnt)
    for key, kernels in groups.items():
        within = np.log(learnt[key].seconds(kernels.sizes) / kernels.seconds)
        assert np.abs(within).mean() < np.abs(errors[key]).mean() < 0.1


def test_a_device_is_predicted_by_families_with_the_same_values() -> None:
    chips = [CHIP, Chip(900e12, 3e12, 130, 2), Chip(2200e12, 8e12, 150, 2)]
    kernels = [measured(5e-6, number=300, chip=chip) for chip in chips]
    key = Key("any", "bf16", "x")
    families = [{key: group} for group in kernels[:2]]
    shared = replace(shared_fit(PRODUCTS, families, SMOOTH), chip=chips[2])
    errors = np.log(shared.seconds(kernels[2].sizes) / kernels[2].seconds)
    assert np.median(np.abs(errors)) < 0.02


def test_a_family_counts_the_same_with_more_kernels() -> None:
    launches = {}
    for number in (600, 2400):
        families = [
            {Key("a", "bf16", "x"): measured(4e-6, number=600)},
            {Key("b", "bf16", "x"): measured(9e-6, number=number)},
        ]
        launches[number] = shared_fit(PRODUCTS, families, SMOOTH).values["launch"]
    assert launches[600] == pytest.approx(launches[2400], rel=0.1)
    assert 4e-6 < launches[600] < 9e-6


def test_relatives_are_of_the_engine_or_else_as_narrow() -> None:
    keys = [Key("h100", *rest) for rest in (("bf16", "x"), ("fp8", "x"), ("fp8", "y"))]
    eager = Key("h100", "fp8_block", "x_eager")
    assert relatives([*keys, eager], Key("b200", "fp8", "x")) == [keys[1]]
    assert relatives([*keys, eager], Key("b200", "nvfp4", "x")) == keys[1:]
    assert relatives(keys, Key("b200", "fp32", "x")) == keys[:1]


def test_the_engine_is_the_framework_and_weights_alone_are_left_out(tmp_path: Path) -> None:
    table = tmp_path / "gemm.csv"
    row = "h100_sxm,vllm,{},any,{},128,256,512,{}\n"
    texts = [row.format("0.19.0", "fp8_block", 9), row.format("0.24.0", "fp8_block", 90)]
    table.write_text(HEADING + "".join(texts) + row.format("0.19.0", "int4_wo", 5))
    groups = products(tmp_path)
    assert [*groups] == [Key("h100", "fp8_block", f"vllm{end}") for end in ("", "_eager")]
    kernels = groups[Key("h100", "fp8_block", "vllm")]
    assert kernels.chip.flops == 1979e12
    assert kernels.seconds.tolist() == [9e-6]
    assert kernels.sizes["quantised"].tolist() == [1]


def test_scores_are_of_the_table_that_ships(tmp_path: Path) -> None:
    row = "a100_sxm,vllm,0.14.0,any,bfloat16,8192,8192,8192,4000\n"
    (tmp_path / "gemm.csv").write_text(HEADING + row)
    write_tables(tmp_path)
    text = main(tmp_path, score=True)
    for kind in SOURCES:
        assert f"{kind}, as shipped" in text


@each_case(
    ("text", "message"),
    [
        ("", "gemm.csv has no column framework, k, m, machine, n, precision, time_us, version"),
        (
            "machine,precision\nh100_sxm,fp8\n",
            "gemm.csv has no column framework, k, m, n, time_us, ",
        ),
        (HEADING + "h100_sxm,vllm,1,x,fp8,1,1,1,-3\n", "time_us is '-3': it is a positive number"),
        (HEADING + "h100_sxm,vllm,1,x,fp8,1,,1,3\n", "n is '': it is a positive number"),
        (HEADING + "h100_sxm,vllm,1,x,fp8,1,1,nan,3\n", "k is 'nan': it is a positive number"),
        (HEADING + "h100_sxm,vllm,1,x,fp8,1\n", "n is '': it is a positive number"),
        (HEADING + "mars,vllm,1,x,fp8,1,1,1,3\n", "'mars' is no device: there are "),
        ("\x00\xff\xfe", "is no CSV file"),
    ],
)
def test_what_a_table_is_refused_for(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gemm.csv").write_bytes(text.encode("latin-1"))
    assert message in refusal(products, tmp_path)


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file .*gemm\.csv"):
        products(tmp_path)


def test_layers_of_experts_are_read_with_their_routing(tmp_path: Path) -> None:
    heading = HEADING.replace("m,n,k,", "tokens,hidden,inter,topk,experts,tp,ep,distribution,")
    row = "h100_sxm,trtllm,1.3,moe_torch_flow_{},bfloat16,8,2048,768,8,128,1,{},{},50\n"
    texts = [row.format("cutlass", 2, "balanced"), row.format("nongated", 4, "power_law_1.2")]
    texts.append(row.format("min_latency", 2, "balanced"))
    (tmp_path / "moe.csv").write_text(heading + "".join(texts))
    groups = grouped_products(tmp_path)
    assert [key.engine for key in groups] == ["trtllm", "trtllm_min_latency"]
    kernels = groups[Key("h100", "bf16", "trtllm")]
    assert kernels.sizes["ups"].tolist() == [2, 1]
    assert kernels.sizes["uneven"].tolist() == [0, 1.2]
    assert len(set(kernels.shapes.tolist())) == 2
