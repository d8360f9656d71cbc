"""Whole files of every format that the project reads: what the mutations start from."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import chakra_files
import job_traces
import monitor_files
import msccl_texts
import mscclpp_plans
import nccl_logs
from experiments import output
from experiments.execution.journal import Journal, journal_of
from experiments.traces import chakra_nodes
from job_texts import JOBS
from model_texts import CONFIGS
from monitor_files import gauges, line, record
from simulator.parallel.pipelines import find
from simulator.parallel.pipelines.pipeline import pipeline_csv

ROOT = Path(__file__).parents[2]
_OSU = (
    "# OSU MPI Allreduce Latency Test v5.6.3\n"
    "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations\n"
    "4                       1.73              1.20              2.10        1000\n"
    "1024                   12.05             11.20             14.92        1000\n"
    "1048576               980.11            970.02           1002.40         100\n"
)
_OSU_RATES = (
    "# OSU MPI Multiple Bandwidth / Message Rate Test v7.5.2\n"
    "# [ pairs: 4 ] [ window size: 64 ]\n"
    "# Size                  MB/s        Messages/s\n"
    "1                       8.00        8000000.00\n"
    "1048576             20000.00          19073.49\n"
)
JOURNAL_FACTS = output.facts({"p": "4"})
_RUNS = (
    "collective,algorithm,protocol,ranks,nodes,size_bytes,in_place,"
    "time_us,min_us,p90_us,mean_us,cv,repetitions,wrong,"
    "backend,device,dtype,library,topology,source,ran\n"
    "all_reduce,ring,,2,1,4096,1,61.5,60.1,70.2,62.0,0.05,100,0,gloo,cpu,float32,torch "
    "2.13.0,,host,\n"
    "all_reduce,,,2,1,8192,1,75.25,71.0,80.5,76.0,0.04,100,0,gloo,cpu,float32,torch "
    "2.13.0,,host,tree LL\n"
    "barrier,,,2,1,0,0,40.0,38.0,45.0,41.0,0.1,100,0,gloo,cpu,float32,torch 2.13.0,,host,\n"
)
_INDEX = (
    "case,family,collective,ranks,nodes,gpus_per_node,gpu_model,"
    "nccl_or_mpi_version,algorithm,note\n"
    "one,F01 a cluster,all_reduce,10,10,1,H100,2.21.5,ring,\n"
    "two,F02 another,all_gather,8,2,4,A100,Open MPI 4,-,quiet\n"
)
_MODEL = json.dumps(
    {
        "name": "m",
        "batch": 4,
        "layers": [
            {
                "name": "a",
                "forward": "1ms",
                "backward": "2ms",
                "parameters": {"weight": "4MB", "bias": "4kB"},
            },
            {"name": "b", "forward": "100us", "backward": "0s", "parameters": "1MiB"},
        ],
    },
    indent=1,
)


_GOAL = """num_ranks 3
// a comment
rank 0 {
a: calc 1000 cpu 1
b: send 100000b to 1 tag 4 nic 1
b irequires a
c: send 8b to 2
c requires b
}
rank 1 {
l: recv 100000b from 0 tag 4
m: send 8b to 2
m requires l
}
rank 2 {
recv 8b from 0
recv 8b from 1 cpu 2
}
"""


class Seed(NamedTuple):
    """The bytes of a valid file, and the ending of its name."""

    name: str
    data: bytes

    @property
    def suffix(self) -> str:
        return (
            "".join(Path(self.name).suffixes[-2:])
            if self.name.endswith(".gz")
            else Path(self.name).suffix
        )


@cache
def seeds(reader: str) -> tuple[Seed, ...]:
    """Valid files for one of the readers of :mod:`file_readers`."""
    return tuple(_SEEDS[reader]())


def _files(*patterns: str) -> Iterator[Seed]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield Seed(path.name, path.read_bytes())


def _measurements() -> Iterator[Seed]:
    yield from _files(
        "examples/*_all_reduce.csv",
        "examples/*.log",
        "tests/experiments/measurements/formats/*.log",
    )
    yield Seed(
        "gloo.csv", b"\n".join((ROOT / "examples/lab/gloo.csv").read_bytes().split(b"\n")[:40])
    )
    yield Seed("log.txt", nccl_logs.log().encode())
    yield Seed(
        "tagged.out",
        "".join(f"[1,0]<stdout>: {line}\n" for line in nccl_logs.log().splitlines()).encode(),
    )
    yield Seed("all.json", json.dumps(_document(), indent=1).encode())
    yield Seed("latency.txt", _OSU.encode())
    yield Seed("rates.txt", _OSU_RATES.encode())
    yield Seed("both.log", (_OSU + nccl_logs.log()).encode())
    yield Seed("runs.csv", _RUNS.encode())
    records = [record(rank, 1, 8192 << k, 30) for k in range(9) for rank in range(4)]
    yield Seed("node1-pid4200.log", "".join(map(line, records)).encode())
    metrics = (gauges(gpu, 103.0, 2**23, "8-9MB") for gpu in range(4))
    yield Seed("metrics.prom", "".join(metrics).encode())


def _document() -> dict[str, Any]:
    """An nccl-tests run as its option -J writes it."""
    device = {
        "group": 0,
        "pid": 4242,
        "hostname": "node0",
        "device_hex": "0x01",
        "device_info": "NVIDIA H100",
    }
    times = ((1024, 21.92), (131072, 40.57), (16777216, 1311.4))
    return {
        "version": 2,
        "args": ["./build/all_reduce_perf", "-J", "out.json"],
        "env": ["HOME=/", "NCCL_ALGO=Ring"],
        "nccl_version": 22902,
        "config": {
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": 1024,
            "maximum_bytes": 16777216,
            "step_factor": 128,
            "iterations": 20,
            "devices": [device | {"rank": rank, "device": rank} for rank in range(4)],
        },
        "results": [_result(size, microseconds) for size, microseconds in times],
        "out_of_bounds": {"count": 0, "okay": "true"},
    }


def _result(size: int, microseconds: float) -> dict[str, Any]:
    rate = size / microseconds / 1e3
    place = {
        "time": microseconds,
        "alg_bw": round(rate, 6),
        "bus_bw": round(1.5 * rate, 6),
        "nwrong": 0.0,
    }
    kind = {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1"}
    return {**kind, "out_of_place": place, "in_place": place}


def _topologies() -> Iterator[Seed]:
    from topologies.catalogue import find
    from topologies.readers.files import to_graphml, to_json, to_yaml

    yield from _files("tests/topologies/readers/data/*.*")
    for name in ("dgx1", "star", "leonardo:nodes=2"):
        machine = find(name).whole()
        yield Seed("machine.yaml", to_yaml(machine).encode())
        yield Seed("machine.json", to_json(machine).encode())
        yield Seed("machine.graphml", to_graphml(machine).encode())


def _models() -> Iterator[Seed]:
    yield from _files("examples/two_layer_model.yaml", "tests/experiments/models/data/*.json.gz")
    yield Seed("model.json", _MODEL.encode())
    yield Seed("trace.json", json.dumps(_trace(), indent=0).encode())
    yield Seed("trace.json.gz", gzip.compress(json.dumps(_trace()).encode(), mtime=0))


def _configs() -> Iterator[Seed]:
    for config in CONFIGS.values():
        yield Seed("config.json", json.dumps(config, indent=2).encode())


def _trace() -> dict[str, Any]:
    """A Kineto trace of a step of one linear layer and a relu, with a kernel."""
    evaluate = "autograd::engine::evaluate_function: "
    acts: tuple[tuple[str, float, float, dict[str, Any]], ...] = (
        (
            "aten::linear",
            0,
            100,
            {"Sequence number": 5, "Input Dims": [[8, 4], [2, 4]], "Input type": ["float"] * 2},
        ),
        (
            "aten::relu",
            100,
            10,
            {"Sequence number": 6, "Input Dims": [[8, 2]], "Input type": ["float"]},
        ),
        (f"{evaluate}ReluBackward0", 200, 20, {"Sequence number": 6}),
        (f"{evaluate}TBackward0", 220, 50, {"Sequence number": 5, "External id": 7}),
        (f"{evaluate}torch::autograd::AccumulateGrad", 300, 40, {}),
        (
            "torch::autograd::AccumulateGrad",
            301,
            4,
            {"Input Dims": [[2, 4]], "Input type": ["float"]},
        ),
    )
    form = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
    events = [
        form | {"name": name, "ts": at, "dur": us, "args": args} for name, at, us, args in acts
    ]
    step = form | {
        "cat": "user_annotation",
        "name": "Optimizer.step#SGD.step",
        "ts": 400,
        "dur": 20,
        "args": {},
    }
    kernel = form | {
        "cat": "kernel",
        "name": "gemm",
        "tid": 7,
        "ts": 230,
        "dur": 30,
        "args": {"External id": 7},
    }
    return {"traceEvents": [*events, step, kernel], "deviceProperties": [{"name": "NVIDIA H100"}]}


def _profiles() -> Iterator[Seed]:
    return _files("experiments/profiles/*.yaml")


def _noise() -> Iterator[Seed]:
    yield Seed("noise.txt", b"1.0\n12.5ms\n0.9e-3\n100us\n2s\n")


def _hosts() -> Iterator[Seed]:
    leaves = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3,4]\n"
    yield Seed("topology.conf", (leaves + "SwitchName=spine Switches=leaf[1-2]\n").encode())
    fabric = "    Fabric\n        CliqueId : 32766\n        ClusterUUID : 1f2e-3d\n"
    log = "==============NVSMI LOG==============\nAttached GPUs : 4\n" + 4 * fabric
    yield Seed("hosts.txt", (log + log).encode())


def _sizes() -> Iterator[Seed]:
    yield Seed("sizes.csv", b"# bytes\n0,4096,1e6,12\n7,0,0,3\n1,2,0,4.5\n0,0,1,0\n")
    yield Seed("chunks.csv", b"4096,1024,0,512\n")


def _serving_points() -> Iterator[Seed]:
    return _files("examples/serving_points.csv")


def _index() -> Iterator[Seed]:
    yield Seed("index.csv", _INDEX.encode())


def _journal() -> Iterator[Seed]:
    with TemporaryDirectory() as folder:
        out = Path(folder) / "x.csv"
        with Journal(out, JOURNAL_FACTS, resume=False) as journal:
            for number in range(4):
                journal.add(number, {"why": "a", "time_s": 0.1 * number})
            yield Seed("x.csv.journal", journal_of(out).read_bytes())


def _programs() -> Iterator[Seed]:
    for name, text in msccl_texts.SHAPES.items():
        yield Seed(f"{name}.xml", text.encode())
    for name, document in mscclpp_plans.SHAPES.items():
        yield Seed(f"{name}.json", json.dumps(document, indent=1).encode())
    yield Seed("tree.goal", _GOAL.encode())


def _workloads() -> Iterator[Seed]:
    nodes = [
        chakra_files.compute(1, 40),
        chakra_files.compute(2, 0, 1, num_ops=10**9, tensor_size=10**6),
        chakra_files.collective(3, 0, 2**20, 2, pg_name="0"),
        chakra_files.compute(4, 5, 3, is_cpu_op=1),
    ]
    yield Seed("job.0.et", chakra_nodes.write(nodes))
    yield Seed("job.0.et", chakra_files.MICROBENCHMARK)
    yield Seed("job.0.et", gzip.compress(chakra_nodes.write(nodes), mtime=0))


def _jobs() -> Iterator[Seed]:
    with TemporaryDirectory() as folder:
        calls = [job_traces.entry(number, 100 * number) for number in range(1, 5)]
        kernels = [job_traces.kernel(0, 5), job_traces.all_reduce(5, 9, 1)]
        for path in (
            *job_traces.dumps(Path(folder) / "pickles", [calls]).iterdir(),
            *job_traces.dumps(Path(folder) / "texts", [calls], "json").iterdir(),
            *job_traces.kineto(Path(folder) / "kineto", [kernels]).iterdir(),
        ):
            yield Seed(path.name, path.read_bytes())
    status = monitor_files.communicator([monitor_files.answering(0)], [monitor_files.silent(1)])
    yield Seed("ras.json", json.dumps(monitor_files.document(status), indent=2).encode())


def _results() -> Iterator[Seed]:
    """Stored results and tables, as commands write them."""
    return _files("tests/fuzz/results/*")


def _resumed() -> Iterator[Seed]:
    yield Seed("runs.csv", _RUNS.encode())


def _pipelines() -> Iterator[Seed]:
    for name in ("interleaved", "zb_v", "dual_pipe"):
        yield Seed(f"{name}.csv", pipeline_csv(find(name).build(2, 4)).encode())


def _job_files() -> Iterator[Seed]:
    for name, text in JOBS.items():
        yield Seed(name, text.encode())


_SEEDS = {
    "measurements": _measurements,
    "index of a folder": _index,
    "runs to resume": _resumed,
    "journal": _journal,
    "topology": _topologies,
    "model": _models,
    "config": _configs,
    "profile": _profiles,
    "noise": _noise,
    "hosts": _hosts,
    "serving points": _serving_points,
    "sizes": _sizes,
    "program": _programs,
    "pipeline": _pipelines,
    "job file": _job_files,
    "workload": _workloads,
    "job": _jobs,
    "result": _results,
}
