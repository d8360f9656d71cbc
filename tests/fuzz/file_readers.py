"""Every reader of files, with the first thing that a command does with what it reads."""

from collections.abc import Callable
from pathlib import Path

from topologies.errors import InputError

Reader = Callable[[Path], object]
FEW = 4
"""Curves of a file that are diagnosed."""
SMALL = 64
"""Ranks up to which a machine is used."""


def _measurements(path: Path) -> None:
    from experiments.diagnosis import compare, diagnose
    from experiments.measurements import curve_checks, doubts, read

    curves = list(read(path).curves)
    for curve in curves[:FEW]:
        if curve.points:
            diagnose(curve, None)
    compare([curve for curve in curves[:FEW] if curve.points])
    list(doubts(curves))
    list(curve_checks.warnings(curves))


def _index(path: Path) -> None:
    from experiments.measurements import read_all

    for case in ("one", "two"):
        path.with_name(f"{case}.csv").write_text("size_bytes,time_us\n1024,10\n4096,20\n16384,55\n")
    read_all([path.parent])


def _resumed(path: Path) -> None:
    from dataclasses import asdict

    from experiments.answer_blocks import render
    from experiments.measure.result_rows import cells, read_rows

    rows = read_rows(path)
    render([asdict(row) for row in rows], cells(rows))


def _journal(path: Path) -> None:
    from experiments.execution.journal import SUFFIX, Journal
    from file_seeds import JOURNAL_FACTS

    out = path.with_name(path.name.removesuffix(SUFFIX))
    with Journal(out, JOURNAL_FACTS, resume=True) as journal:
        assert set(journal.results) <= set(range(4))


def _topology(path: Path) -> None:
    from experiments.machine_facts import facts
    from topologies.readers.files import read

    machine = read(path)
    if machine.ranks <= SMALL and len(machine.bandwidth) <= 50 * SMALL:
        facts(machine)


def _model(path: Path) -> None:
    from experiments.models.model_files import read
    from experiments.training.job import Job
    from experiments.training.strategy_options import find
    from topologies.catalogue import find as find_machine

    model = read(path)
    if len(model.layers) <= SMALL:
        Job(model, "ddp", find("ddp"), find_machine("star")).run(2)


def _config(path: Path) -> None:
    from experiments.models.model_catalogue import find_transformer

    entry = find_transformer(str(path))
    assert entry.with_options(f"layers={min(entry.shape.blocks, 4)}").estimate.layers


def _profile(path: Path) -> None:
    from experiments.profiles import read
    from experiments.simulations.grid import Grid, sweep
    from simulator.collectives import find
    from topologies.catalogue import find as find_machine

    profile = read(path).simulated()
    machine = find_machine(profile.machine)
    list(sweep(Grid([find("ring")], [4], [1e6], machine.build, profile=profile)))


def _noise(path: Path) -> None:
    from experiments.options.condition_parser import parse

    parse(None, str(path), None, None, 0)


def _hosts(path: Path) -> None:
    from topologies.catalogue import find
    from topologies.host_machines import on_hosts
    from topologies.readers.placements import read_hosts

    hosts = read_hosts(str(path))
    if len(hosts.names) <= SMALL:
        on_hosts(find("nvl72" if hosts.noun == "rack" else "hgx_h100"), hosts)


def _serving_points(path: Path) -> None:
    from functools import partial

    from deployments import deploy
    from experiments.serving.measured_points import factors, read_points
    from experiments.serving.operating_point import point
    from topologies.catalogue import find

    predict = partial(point, deploy(), find("hgx_h200").build(8))
    factors(deploy(), predict, read_points(path)[:SMALL])


def _sizes(path: Path) -> None:
    from experiments.options.pattern_options import read_table
    from simulator.collectives import find
    from simulator.collectives.uneven import skewed

    table = read_table(path)
    ranks = len(table.rows[0])
    if 1 < ranks <= SMALL:
        name = "ring_all_gatherv" if len(table.rows) == 1 else "posted_all_to_allv"
        skewed(find(name), table).build(ranks, 1e6)


def _program(path: Path) -> None:
    from experiments.algorithm_files import read_algorithm
    from experiments.commands.algos import details
    from simulator.collectives.proof import prove

    algorithm = read_algorithm(str(path))
    details(str(path))
    for ranks in range(2, SMALL):
        if algorithm.defined(ranks):
            prove(algorithm, algorithm.build(ranks, 1.0))


def _pipeline(path: Path) -> None:
    from experiments.pipeline_files import order_of_file
    from simulator.parallel.pipelines.pipeline import pipeline_csv, read_pipeline

    text = path.read_text(encoding="utf-8-sig", errors="replace")
    order_of_file(path)
    read_pipeline(pipeline_csv(read_pipeline(text, path.name)), path.name)


def _job_file(path: Path) -> None:
    from experiments.frameworks.job_file import read_job

    list(read_job(str(path), 64).sentences())


def _workload(path: Path) -> None:
    from experiments.commands.run_chakra import roofline_of, usual_algorithms
    from experiments.traces.chakra_workload import read_workload
    from simulator.engines import simulate
    from simulator.steps.written import write
    from topologies.catalogue import find as find_machine

    for rank in range(2):
        path.with_name(f"job.{rank}.et").write_bytes(path.read_bytes())
    graph, _ = read_workload(path.parent, usual_algorithms([]), roofline_of("h100"))
    written = write(graph, find_machine("star").build(2))
    simulate(written.schedule, written.topology)


def _job(path: Path) -> None:
    from experiments.traces.job_calls import JobCalls
    from experiments.traces.job_folder import read_job
    from experiments.traces.job_tables import group_rows, problems, rank_rows
    from experiments.traces.ras_status import read_status

    if read_status([path]) is not None:
        return
    twins = [path.with_name(f"twin_{rank}{''.join(path.suffixes[-2:])}") for rank in range(2)]
    for rank, twin in enumerate(twins):
        twin.write_bytes(path.read_bytes().replace(b'"rank": 0', b'"rank": %d' % rank, 1))
    job = JobCalls(read_job(twins))
    problems(job), rank_rows(job), group_rows(job)


def _result(path: Path) -> None:
    from experiments.pages.page import to_html
    from experiments.pages.reports.comparison_story import page_of_results
    from experiments.pages.reports.stored_files import read_any, read_from

    with read_from(path):
        result = read_any(path)
        for results in ([result], [result, result]):
            to_html(page_of_results(results, ["before", "after"][: len(results)], pictures=False))


READERS: dict[str, Reader] = {
    "measurements": _measurements,
    "index of a folder": _index,
    "runs to resume": _resumed,
    "journal": _journal,
    "topology": _topology,
    "model": _model,
    "config": _config,
    "profile": _profile,
    "noise": _noise,
    "hosts": _hosts,
    "serving points": _serving_points,
    "sizes": _sizes,
    "program": _program,
    "pipeline": _pipeline,
    "job file": _job_file,
    "workload": _workload,
    "job": _job,
    "result": _result,
}


def refused(reader: str, path: Path) -> str:
    """The line with which a reader refuses a file; nothing where it reads the file."""
    try:
        READERS[reader](path)
    except InputError as error:
        return str(error) or "no word"
    return ""
