from pathlib import Path

import pytest

from curve_csvs import PLAIN, written
from experiments.measurements import read
from grouped_cases import each_case

INDEX = (
    'case,collective,ranks,nodes,algorithm,note\nrun,sendrecv,8,2,Ring,"4 pairs, one way"\n'
    "odd,what,many,,,\n"
)


@pytest.mark.parametrize("where", [".", ".."])
def test_an_index_beside_the_file_or_one_up_says_the_rest(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "curves"
    folder.mkdir()
    written(folder / where, "index.csv", INDEX)
    (curve,) = read(written(folder, "run.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks, curve.nodes) == ("send_recv", 8, 2)
    assert (curve.algorithm, curve.notes) == ("ring", ("algorithm: Ring", "note: 4 pairs, one way"))


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("osu_mbw_mr", "multi-pair bandwidth"),
        ("osu_latency", "latency"),
        ("osu_allreduce", "collective"),
    ],
)
def test_an_index_that_names_the_program_says_what_was_measured(
    tmp_path: Path, program: str, kind: str
) -> None:
    written(
        tmp_path,
        "index.csv",
        f"case,collective,note\nrun,sendrecv,{program}: aggregate over 4 pairs\n",
    )
    assert read(written(tmp_path, "run.csv", PLAIN)).curves[0].kind == kind


FULL_INDEX = (
    "case,family,collective,ranks,nodes,gpus_per_node,gpu_model,intra,inter,"
    "nccl_or_mpi_version,algorithm,note\n"
    "run,F01 One,all_reduce,16,4,4,H100,NVLink4,4x NDR200,2.18.3,NCCL_PROTO=LL128,\n"
    'off,F01 One,all_reduce,16,4,4,H100,NVLink4,,NCCL 2.8.4-1,"label NVLS, NOT effective",\n'
    "own,F04 Two,all_reduce,64,64,1,,,,Cray MPICH (_over = the authors own),rabenseifner_over,\n"
)


def test_an_index_says_all_of_a_curve(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", FULL_INDEX)
    run, off, variant = (
        read(written(tmp_path, f"{case}.csv", PLAIN)).curves[0] for case in ("run", "off", "own")
    )
    assert (run.algorithm, run.protocol, run.library, run.gpus_per_node) == (
        "",
        "LL128",
        "NCCL 2.18.3",
        4,
    )
    assert (run.device, run.family, run.machine) == ("H100", "F01 One", "H100; NVLink4; 4x NDR200")
    assert (off.algorithm, off.library) == ("", "NCCL 2.8.4-1")
    assert off.notes[1] == "the label of the algorithm had no effect: the library chose"
    assert (variant.algorithm, variant.library) == (
        "halving_doubling",
        "Cray MPICH, the authors' own algorithm",
    )


def test_an_index_that_says_nonsense_is_noted(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", INDEX)
    (curve,) = read(written(tmp_path, "odd.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks, curve.nodes) == ("unknown", None, None)
    assert curve.notes == ("unknown collective 'what' in index.csv",)


def test_a_number_of_thousands_of_digits_in_an_index_is_none(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", f"case,collective,ranks\nrun,all_reduce,{'1' * 5000}\n")
    assert read(written(tmp_path, "run.csv", PLAIN)).curves[0].ranks is None


def test_an_index_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_bytes(b"case\0")
    (curve,) = read(written(tmp_path, "run_ar_p4.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks) == ("all_reduce", 4)
    assert curve.notes[0].startswith("index not used: ")


def test_the_columns_outrank_the_index_and_the_index_the_name(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", "case,collective,ranks\nrun_ar_p4,broadcast,8\n")
    (curve,) = read(written(tmp_path, "run_ar_p4.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks) == ("broadcast", 8)
    text = "size_bytes,time_us,ranks\n8,1,16\n"
    (curve,) = read(written(tmp_path, "run_ar_p4.csv", text)).curves
    assert (curve.collective, curve.ranks) == ("broadcast", 16)


@each_case(
    ("name", "collective", "ranks"),
    [
        ("leo_ring_ompi_ar_p16", "all_reduce", 16),
        ("leo_allgather_reduce_ompi_ar_p4", "all_reduce", 4),
        ("x_ag_p1024", "all_gather", 1024),
        ("x_rs_p8", "reduce_scatter", 8),
        ("x_a2a_p8", "all_to_all", 8),
        ("x_bc_p8", "broadcast", 8),
        ("x_sr_p2", "send_recv", 2),
        ("all-reduce_p8", "all_reduce", 8),
        ("reduce_scatter_p8", "reduce_scatter", 8),
        ("allreduce", "all_reduce", None),
        ("nothing_p0", "unknown", None),
        ("star", "unknown", None),
    ],
)
def test_a_name_says_what_nothing_else_does(
    tmp_path: Path, name: str, collective: str, ranks: int | None
) -> None:
    (curve,) = read(written(tmp_path, f"{name}.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks) == (collective, ranks)
    assert bool(curve.notes) == (collective != "unknown")
