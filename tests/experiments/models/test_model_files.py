"""Files of models: what is written is read back, jobs of several traces, and what is refused."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from experiments.models import model_files as files
from experiments.models.model_catalogue import find
from experiments.models.model_files import dumps, parse, read
from grouped_cases import each_case
from law_cases import tries
from model_texts import SMALL, TWO, outcome, refusal
from refusals import changes_of
from simulator.training.model import WIDTHS, Layer, Model, Tensor
from topologies.errors import InputError

EXAMPLE = Path(__file__).parents[3] / "examples" / "two_layer_model.yaml"
names = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="\x85\u2028\u2029"),
    min_size=1,
    max_size=12,
)
seconds = st.just(0.0) | st.floats(1e-12, 1e9)
sizes = st.just(0.0) | st.floats(1.0, 1e20) | st.integers(1, 2**60).map(float)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Any model that a file can hold."""
    chosen = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    layers = [draw(layer(name)) for name in chosen]
    layers[0] = replace(
        layers[0], tensors=(*layers[0].tensors, Tensor("the one that there must be", 4.0))
    )
    return Model(
        draw(names),
        draw(st.integers(1, 2**31 - 1)),
        tuple(layers),
        dtype=draw(st.sampled_from(list(WIDTHS))),
        gradient_dtype=draw(st.sampled_from(list(WIDTHS))),
        optimizer=draw(seconds),
        state=draw(st.floats(0, 1e6)),
        inputs=draw(sizes),
        outputs=draw(sizes),
        memory_bandwidth=draw(st.just(float("inf")) | st.floats(1, 1e18)),
        multiprocessors=draw(st.integers(0, 2**31 - 1)),
        device=draw(names),
        source=draw(names),
        registration=draw(st.just(()) | st.permutations(range(len(layers))).map(tuple)),
    )


def layer(name: str) -> st.SearchStrategy[Layer]:
    """Any layer of that name."""
    tensors = st.dictionaries(names, sizes, max_size=3).map(
        lambda size_of: tuple(Tensor(*item) for item in size_of.items())
    )
    return st.builds(
        Layer, st.just(name), seconds, seconds, sizes, tensors, sizes, st.integers(0, 2**31 - 1)
    )


@given(models())
def test_what_is_written_is_read_back_to_the_bit(model: Model) -> None:
    assert parse(dumps(model), "m.yaml") == model


@tries(6, 20)
@given(models())
def test_as_json_it_is_the_same(model: Model) -> None:
    assert parse(json.dumps(yaml.safe_load(dumps(model))), "m.json") == model


def test_a_small_model_is_as_it_says() -> None:
    assert parse(SMALL, "m.yaml") == TWO


def test_what_is_as_usual_is_not_written() -> None:
    assert dumps(TWO) == (
        "name: m\nbatch: 4\nlayers:\n"
        "- name: a\n  forward: 1ms\n  backward: 2ms\n  parameters: {weight: 4MB, bias: 4kB}\n"
        "- {name: b, forward: 100us, backward: 0s, parameters: 1.048576MB}\n"
    )


def test_layers_may_be_registered_in_another_order() -> None:
    model = parse(SMALL + "registration: [b, a]\n", "m.yaml")
    assert model.registration == (1, 0)
    assert "registration: [b, a]" in dumps(model)


def test_the_example_can_be_read() -> None:
    model = read(EXAMPLE)
    assert (model.batch, model.state, model.optimizer) == (32, 2.0, 200e-6)
    assert model.parameters == 2**22 + 2**12 + 40e3
    assert model.forward == pytest.approx(1.26e-3)
    assert [tensor.name for tensor in model.layers[0].tensors] == ["weight", "bias"]


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    (tmp_path / "m.yml").write_text(dumps(TWO))
    (tmp_path / "m").write_text(SMALL)
    (tmp_path / "m.json").write_text("\ufeff" + json.dumps(yaml.safe_load(SMALL)))
    (tmp_path / "m.yaml.gz").write_bytes(gzip.compress(SMALL.encode()))
    for name in ("m.yml", "m", "m.json", "m.yaml.gz"):
        assert read(tmp_path / name) == TWO


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
    for joint in (files.read_all([second, first]), find(str(tmp_path)), find(f"{tmp_path}/*.json")):
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


def put(content: Any, path: tuple[Any, ...], value: object) -> None:
    """Set what is at a path of keys, if there is still a place for it."""
    *outer, last = path
    for key in outer:
        if isinstance(content, dict):
            content = content.get(key)
        else:
            content = content[key] if isinstance(content, list) and content else None
    if isinstance(content, dict):
        content[last] = value


@each_case(
    ("old", "new", "message"),
    changes_of("model"),
)
def test_a_mistake_is_one_line(old: str, new: str, message: str) -> None:
    """The message follows the name of the file and the word line."""
    assert message in refusal(SMALL.replace(old, new)).removeprefix("m.yaml line ")


@each_case(
    ("text", "message"),
    [
        (
            "name: m\nbatch: 1\nlayers: []",
            "m.yaml line 1: model m has no layers: give it one or more",
        ),
        ("name: m\nbatch: 1\nlayers: 5", "m.yaml line 3, layers: 5 is not a list"),
        ("name: m\nbatch: 1", "m.yaml line 1, layers: is missing"),
        ("[1, 2]", "m.yaml line 1: a list is not a mapping of keys to values"),
        ("just text", "m.yaml line 1: 'just text' is not a mapping of keys to values"),
        (
            "name: m\nbatch: 1\nlayers: [{name: a, forward: 1s, backward: 1s}]",
            "has no gradients: no layer has a",
        ),
        ("", "m.yaml is empty"),
        ("# nothing", "m.yaml is empty"),
        ("{" * 100_000, "m.yaml line 1: Expecting property name enclosed in double quotes"),
        ('{"a":' * 100_000, "m.yaml is nested too deep"),
        ("- " * 300, "m.yaml line 1: nested more than 8 deep"),
        ("- " * 3000, "m.yaml line 1: exceeded maximum nesting depth"),
        (
            SMALL + "- 1\n" * 3,
            "m.yaml line 6, layers[2]: 1 is not a mapping of keys to values (and 2 more mistakes)",
        ),
    ],
)
def test_what_is_no_model_is_refused(text: str, message: str) -> None:
    assert message in refusal(text)


def test_many_layers_are_refused_before_they_are_looked_at() -> None:
    assert "layers: a list: list should have at most 100000 items" in refusal(
        "name: m\nbatch: 1\nlayers: [" + "1," * 100_001 + "]"
    )


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a: &a [x, x]"] + [
        f"{new}: &{new} [*{old}, *{old}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert "an alias stands for it elsewhere" in refusal("\n".join(lines))


@pytest.mark.parametrize("text", [SMALL, json.dumps(yaml.safe_load(SMALL))])
def test_a_file_that_is_cut_off_is_read_as_a_smaller_one_or_refused(text: str) -> None:
    outcomes = [outcome(text[:end], "m") for end in range(len(text))]
    lines = [line for line in outcomes if isinstance(line, str)]
    assert len(lines) > len(text) / 2
    assert not any("\n" in line for line in lines)
    assert all(model.parameters <= TWO.parameters for model in outcomes if isinstance(model, Model))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "m.yaml is empty"),
        (b" \n", "m.yaml is empty"),
        (bytes(range(256)), "m.yaml line 2: not UTF-8"),
        (SMALL.encode("utf-16"), "m.yaml line 1: not UTF-8"),
        (gzip.compress(SMALL.encode())[:-20], "m.yaml is damaged or cut off"),
        (b"\x1f\x8bnot gzip", "m.yaml is damaged or cut off"),
        (gzip.compress(bytes(130 * 2**20), 1), "m.yaml has more than 128 MiB"),
        (b"a" * (2**24 + 1), "m.yaml has 16777217 bytes: a model has at most 16777216"),
    ],
    ids=range(8),
)
def test_a_file_of_anything_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(path)


def test_a_file_of_200_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(InputError, match=r"m\.yaml has more than 128 MiB"):
        read(path)


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "is a directory"),
        (Path("a\0b"), "null"),
    ):
        with pytest.raises(InputError, match=reason):
            read(path)


def test_what_no_file_can_hold_is_not_written() -> None:
    doubled = replace(TWO, layers=(TWO.layers[0], TWO.layers[0]))
    tensors = replace(TWO.layers[0], tensors=(Tensor("w", 1.0), Tensor("w", 1.0)))
    for model, message in (
        (doubled, "'a' is there 2 times"),
        (replace(TWO, layers=(tensors,)), "layer a of m has 2 parameters called w"),
        (replace(TWO, name="two\nlines"), "printable"),
        (replace(TWO, optimizer=1e10), "is out of range"),
        (replace(TWO, inputs=0.5), "is not positive|is out of range"),
    ):
        with pytest.raises(InputError, match=message):
            dumps(model)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["1ms", "4kB", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "x", "weight"]), inner)
    ),
    max_leaves=5,
)
