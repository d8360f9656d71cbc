"""One model from the traces of one job: a layer has the times of each rank."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.models import model_files as files
from experiments.models.model_catalogue import find
from grouped_cases import each_case
from simulator.training.model import Model
from topologies.errors import InputError

REAL = Path(__file__).parent / "data" / "ddp_mlp_gloo.json.gz"


def model(**changes: object) -> str:
    """Two layers as YAML."""
    values: dict[str, Any] = {"batch": 4, "fc": "1s", "last": "relu", "bytes": "4kB"} | changes
    return (
        f"name: m\nbatch: {values['batch']}\noptimizer: 1s\nlayers:\n"
        f"- {{name: fc, forward: {values['fc']}, backward: 4s, parameters: {values['bytes']}}}\n"
        f"- {{name: {values['last']}, forward: 0s, backward: 1s}}\n"
    )


def written(folder: Path, **models: str) -> list[Path]:
    for name, text in models.items():
        (folder / f"{name}.yaml").write_text(text)
    return [folder / f"{name}.yaml" for name in models]


def trace(folder: Path, name: str, rank: int | None, slower: float = 1.0) -> Path:
    """The real trace as if another rank had written it, all of it slower."""
    content = json.loads(gzip.decompress(REAL.read_bytes()))
    content["distributedInfo"] = {} if rank is None else {"rank": rank}
    for event in content["traceEvents"]:
        for key in {"ts", "dur"} & set(event):
            event[key] *= slower
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def test_a_layer_has_the_times_of_each_rank(tmp_path: Path) -> None:
    paths = written(tmp_path, a=model(), b=model(fc="3s"))
    joint = files.read_all(paths)
    assert (joint.ranks, joint.layers[0].forward, joint.layers[0].forwards) == (2, 2.0, (1.0, 3.0))
    assert (joint.layers[1].backward, joint.layers[1].backwards) == (1.0, (1.0, 1.0))
    assert (joint.optimizer, joint.optimizers, joint.parameters) == (1.0, (1.0, 1.0), 4000.0)
    assert joint.source.startswith("2 files, a rank each, a.yaml to b.yaml; of a.yaml: ")
    assert find(f"{paths[1]},{paths[0]}").layers[0].forwards == (3.0, 1.0)


def test_traces_are_in_the_order_of_their_ranks(tmp_path: Path) -> None:
    second, first = trace(tmp_path, "a.json", 1, slower=2.0), trace(tmp_path, "b.json", 0)
    alone = files.read(first)
    for joint in (
        files.read_all([second, first]),
        find(str(tmp_path)),
        find(f"{tmp_path}/*.json"),
    ):
        for layer, single in zip(joint.layers, alone.layers, strict=True):
            assert layer.forwards == pytest.approx((single.forward, 2 * single.forward))
            assert layer.backwards == pytest.approx((single.backward, 2 * single.backward))
            assert layer.tensors == single.tensors


def test_traces_that_do_not_say_their_rank_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    for number in (2, 10, 1):
        trace(tmp_path, f"rank{number}.json", None, slower=number)
    joint = find(str(tmp_path))
    assert joint.layers[0].forwards == pytest.approx(
        [joint.layers[0].forwards[0] * slower for slower in (1, 2, 10)]
    )


def test_what_was_read_from_several_files_can_be_written_to_one(tmp_path: Path) -> None:
    trace(tmp_path, "0.json", 0)
    trace(tmp_path, "1.json", 1, slower=3.0)
    joint = find(str(tmp_path))
    (tmp_path / "both.yaml").write_text(files.dumps(joint))
    assert files.read(tmp_path / "both.yaml") == joint
    with pytest.raises(InputError, match=r"both.yaml has times of 2 ranks already: give it alone"):
        files.read_all([tmp_path / "both.yaml", tmp_path / "0.json"])


def test_one_trace_is_a_model_as_ever(tmp_path: Path) -> None:
    path = trace(tmp_path, "0.json", 3)
    assert find(str(tmp_path)) == files.read(path)


@each_case(
    ("second_model", "message"),
    [
        (
            model(batch=8),
            "the batch .8. of b.yaml differs from the batch .4. of a.yaml: give traces of one job",
        ),
        (
            model(last="gelu"),
            "the name of layer 1 .gelu. of b.yaml differs from the name of layer 1 .relu. of a",
        ),
        (model(bytes="8kB"), "the tensors of layer 0 .fc. of b.yaml differs from"),
        (
            model().replace("- {name: relu, forward: 0s, backward: 1s}", ""),
            "the number of layers .1. of b.yaml differs from the number of layers .2. of",
        ),
        ("name: [", "b.yaml line 2"),
    ],
)
def test_models_of_one_job_differ_in_times_alone(
    tmp_path: Path, second_model: str, message: str
) -> None:
    paths = written(tmp_path, a=model(), b=second_model)
    with pytest.raises(InputError, match=message):
        files.read_all(paths)


def test_files_that_make_no_model_are_refused(tmp_path: Path) -> None:
    path = trace(tmp_path, "a.json", 1)
    with pytest.raises(InputError, match=r"a.json and a.json are both of rank 1"):
        find(f"{path},{path}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError, match=r"has no traces: it holds no file that ends in .json or .json.gz"
    ):
        find(str(tmp_path / "empty"))
    nowhere = (f"{tmp_path}/no such folder/*.json", f"{path}/*.json", "x" * 300 + "/*", "a\0b/*")
    for pattern in (f"{tmp_path}/*.gz", "**x", "[", "*\0", *nowhere):
        with pytest.raises(InputError, match="no file matches"):
            find(pattern)
    with pytest.raises(InputError, match=r"no such file: no/such.json"):
        find(f"{path},no/such.json")
    with pytest.raises(InputError, match="did you mean 'resnet50'"):
        find("resnet51:batch=4,device=a100")
    with pytest.raises(InputError, match="4097 traces: at most 4096"):
        files.read_all([path] * 4097)


def test_a_model_says_how_many_ranks_it_has(tmp_path: Path) -> None:
    assert find("resnet50").ranks == 0
    joint: Model = files.read_all([trace(tmp_path, f"{rank}.json", rank) for rank in range(3)])
    assert joint.ranks == 3
