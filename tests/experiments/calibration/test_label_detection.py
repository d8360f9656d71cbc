"""Labels without effect: the fit finds what ran instead, the profile stores it, and commands use
it."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.calibration import label_detection
from experiments.calibration.calibrated_profile import Calibration, document, points
from experiments.calibration.fit import explore
from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import OWN, FitCurve, FitPoints
from experiments.calibration.prediction import predict
from experiments.calibration.uncertainty import shipped_rules
from experiments.measurements import Curve, Point
from experiments.profiles import parse
from experiments.profiles.profile_document import dumps
from experiments.simulations.algorithm_remarks import ineffective_labels
from simulator.collectives import find
from simulator.effects.labels import Ineffective
from simulator.profile import Profile
from topologies.catalogue import find as find_machine
from topologies.errors import InputError

SIZES = tuple(4**k for k in range(4, 14))


def machine(library: Library) -> Profile:
    """A library where its priors say."""
    blank = Model(
        FitPoints(
            [FitCurve("", "all_reduce", ("ring",), 16, 4, np.array(SIZES, float), np.ones(10))]
        ),
        library,
    )
    return blank.profile(blank.start, "made up", "nodes:per_node=4")


def curve(
    library: Library,
    algorithm: str,
    ran: str | tuple[str, ...],
    ranks: int,
    ignored_algorithm: str = "",
    words: str = "",
) -> Curve:
    """A run that was told to take one algorithm and took another one."""
    names = (ran,) if isinstance(ran, str) else ran
    blank = FitCurve(
        "", "all_reduce", names, ranks, ranks // 4, np.array(SIZES, float), np.ones(len(SIZES))
    )
    rows = predict(machine(library), library, blank, as_nodes(ranks, 4))
    measured = tuple(Point(int(row.size), row.seconds) for row in rows)
    source = f"{algorithm or 'noted'}_{ranks}.log"
    return Curve(
        "all_reduce",
        ranks,
        ranks // 4,
        measured,
        (),
        source,
        algorithm=algorithm,
        ignored_algorithm=ignored_algorithm,
        library=words or f"{library.name} 1",
    )


def nccl(*more: Curve) -> list[Curve]:
    """Rings and trees as they are called, and `more`."""
    return [
        curve(NCCL, name, name, ranks) for name in ("ring", "double_tree") for ranks in (8, 16)
    ] + list(more)


@pytest.mark.parametrize(
    ("algorithm", "noted"),
    [("", "nvlstree"), pytest.param("NVLSTree", "", marks=pytest.mark.exhaustive)],
    ids=["noted", "not noted"],
)
def test_an_algorithm_that_nccl_left_for_a_ring_is_found_and_kept(
    algorithm: str, noted: str
) -> None:
    curves = nccl(*(curve(NCCL, algorithm, "ring", ranks, noted) for ranks in (8, 16)))
    measured, skipped = points(curves, NCCL)
    assert len(skipped) == (0 if noted else 2)
    result = explore(Model(measured, NCCL))
    fitted = {series.name for series in measured.curves}
    unfitted = [measured_curve for measured_curve in curves if measured_curve.source not in fitted]
    known = label_detection.of_fit(result) + label_detection.fallen_back(
        unfitted, NCCL, result.profile, as_nodes
    )
    (label,) = known
    assert (label.label.lower(), label.ran, label.ranks, label.nodes) == (
        "nvlstree",
        ("ring",),
        None,
        None,
    )
    profile = document(
        Calibration(result, shipped_rules(), []), "x", "nodes:per_node=4", [], {}, known
    )
    again = parse(dumps(profile), "x.yaml")
    assert again.simulated().ineffective == (label,)
    more = curve(NCCL, algorithm, "ring", 32, noted)
    (judged,) = points([more], NCCL, profile=again.simulated())[0].curves
    assert (judged.algorithms, judged.ignored) == (("ring",), True)
    rows = predict(again.simulated(), NCCL, judged, as_nodes(32, 4))
    assert np.mean([abs(row.error) for row in rows]) < 0.05


def test_labels_without_effect_are_told_apart_if_no_curve_has_an_effective_label() -> None:
    """A fit with the same choice for both labels ends between the two."""
    chosen = NCCL.algorithms("all_reduce")
    curves = [
        curve(NCCL, "", ran, ranks, label)
        for label, ran in (("nvls", chosen), ("nvlstree", "ring"))
        for ranks in (16, 32)
    ]
    result = explore(Model(points(curves, NCCL)[0], NCCL))
    assert result.model.ran == {2: ("ring",), 3: ("ring",)}
    assert np.abs(result.residuals).mean() < 0.05


def test_an_algorithm_that_nothing_here_explains_is_not_said_to_be_another() -> None:
    strange = curve(NCCL, "NVLSTree", "ring", 8)
    halved = replace(
        strange, points=tuple(replace(point, time_s=point.time_s / 2) for point in strange.points)
    )
    short = replace(strange, points=strange.points[:3])
    assert label_detection.fallen_back([strange], NCCL, machine(NCCL), as_nodes)
    for unexplained in (halved, short, replace(strange, algorithm="ring")):
        assert label_detection.fallen_back([unexplained], NCCL, machine(NCCL), as_nodes) == []


def test_a_label_that_mpi_ignored_on_some_ranks_is_of_those_ranks_and_that_library() -> None:
    forced_curves = [
        curve(MPI, name, name, ranks)
        for name in ("ring", "recursive_doubling")
        for ranks in (8, 16)
    ]
    second_version = curve(
        MPI, "recursive_doubling", MPI.algorithms("all_reduce"), 8, words="MPI 2"
    )
    curves = [*forced_curves, second_version]
    result = explore(Model(points(curves, MPI)[0], MPI))
    (label,) = label_detection.of_fit(result)
    assert label[:2] == ("recursive_doubling", "all_reduce")
    assert (label.ranks, label.nodes, label.library) == (8, 2, "MPI 2")
    profile = document(
        Calibration(result, shipped_rules(), []), "x", "nodes:per_node=4", [], {}, [label]
    ).simulated()
    measured, _ = points(curves, MPI, profile=profile)
    assert [series.ignored for series in measured.curves] == [False, False, False, False, True]
    assert set(measured.curves[-1].algorithms) == {"recursive_doubling", "halving_doubling", "ring"}
    rows = predict(profile, MPI, measured.curves[-1], as_nodes(8, 4))
    assert np.mean([abs(row.error) for row in rows]) < 0.1


def test_a_sweep_of_an_algorithm_that_was_not_run_says_so() -> None:
    label = Ineffective(
        "recursive_doubling", "all_reduce", ("ring", "recursive_doubling"), 8, 8, "MPI 1"
    )
    profile = replace(machine(MPI), ineffective=(label,))
    algorithms = [find("ring"), find("recursive_doubling")]
    lines = list(ineffective_labels(profile, algorithms, [8, 16], find_machine("star").build))
    message = (
        "made up: told to take recursive_doubling on 8 ranks, a run with MPI 1 took the fastest of"
    )
    assert lines == [f"{message} ring, recursive_doubling: this simulates recursive_doubling"]
    assert (
        list(ineffective_labels(machine(MPI), [find("ring")], [8], find_machine("star").build))
        == list(ineffective_labels(None, [find("ring")], [8], find_machine("star").build))
        == []
    )


def test_a_profile_names_algorithms_that_there_are() -> None:
    text = (
        "profile: x\nmachine: nodes\nlibrary: MPI\nlaunch: 0\nprotocols: {a: {network: {latency: "
        "1, bandwidth: 1}}}\n"
        "ineffective:\n- {label: ring, collective: all_reduce, ran: [rign]}\n"
    )
    with pytest.raises(InputError, match=r"ineffective.*no such algorithm: did you mean ring"):
        parse(text, "x.yaml")
    for name in ("ring", "ring:segments=4"):
        known = parse(text.replace("rign", f"'{name}'"), "x.yaml")
        assert known.ineffective[0].ran == (name,)


def test_a_library_that_does_not_follow_its_published_rule_takes_the_fastest() -> None:
    """Open MPI 4.0 takes a ring from 10,000 bytes on. Its runs are judged together."""
    fastest = MPI.algorithms("all_reduce")
    curves = [
        *(curve(MPI, name, name, 64) for name in fastest[:2]),
        *(curve(MPI, "", fastest, 64, words="OpenMPI 4.0.5") for _ in range(2)),
    ]
    measured, _ = points(curves, MPI)
    assert measured.curves[-1].algorithms == ("recursive_doubling", "ring")
    result = explore(Model(measured, MPI))
    (label,) = label_detection.of_fit(result)
    assert label == Ineffective(OWN, "all_reduce", fastest, 64, 16, "OpenMPI 4.0.5")
    calibration = Calibration(result, shipped_rules(), [])
    profile = document(calibration, "x", "nodes:per_node=4", [], {}, [label]).simulated()
    judged, _ = points(curves, MPI, profile=profile)
    assert judged.curves[-1].algorithms == fastest
    assert judged.curves[-1].rule is None


def test_a_library_that_follows_its_published_rule_has_no_such_label() -> None:
    sizes = np.array(SIZES, float)
    rule = MPI.rule("all_reduce", 64, "OpenMPI 4.0.5")
    blank = FitCurve("", "all_reduce", ("ring",), 64, 16, sizes, np.ones(10), rule=rule)
    rows = predict(machine(MPI), MPI, blank, as_nodes(64, 4))
    assert {row.algorithm for row in rows} == {"recursive_doubling", "ring"}
    run = replace(
        curve(MPI, "", "ring", 64, words="OpenMPI 4.0.5"),
        points=tuple(Point(int(row.size), row.seconds) for row in rows),
    )
    assert label_detection.of_fit(explore(Model(points([run], MPI)[0], MPI))) == []
