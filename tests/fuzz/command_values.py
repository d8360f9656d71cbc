"""Values of options that are valid, each alone, and mean little work."""

from collections.abc import Callable
from random import Random

Value = Callable[[Random], str]
SHAPES = (
    *("ring", "star", "full_mesh", "full_mesh_one_port", "bus", "line", "tree", "grid", "torus"),
    *("hypercube", "nodes", "leaf_spine", "fat_tree", "dragonfly"),
)
LINKS = ("bandwidth", "latency", "gap")
"""Options that describe the links of a shape."""


def _of(*values: str) -> Value:
    return lambda random: random.choice(values)


def _several(*values: str, most: int = 3) -> Value:
    return lambda random: ",".join(random.sample(values, random.randint(1, min(most, len(values)))))


_WITH_OPTIONS = (
    *("torus:dims=2x2", "grid:dims=2x4,periodic=yes", "tree:branching=3", "nodes:per_node=4"),
    *("full_mesh:ports=one", "leaf_spine:ports_per_leaf=4,spines=2"),
    *("fat_tree:k=4", "dragonfly:hosts=2,routers=2,global_links=1"),
)
_MACHINES = (
    *("dgx1", "hgx_h100:nodes=2", "leonardo", "mn5_acc:nodes=2", "alps:nodes=2,network=leaf_spine"),
    *("mi300x", "pcie_box:nics=1", "hgx_h100:nodes=1,sharp=yes"),
    *("dgx_a100:nodes=1,paths=hash", "b200:nodes=2,port=hdr"),
)
_FILES = (
    "machine.yaml",
    "machine.json",
    "machine.graphml",
    "nccl.xml",
    "topo.txt",
    "machine.yaml:nodes=2",
)
_ALGORITHMS = (
    *("ring", "ring", "naive", "tree", "rings", "halving_doubling", "double_tree"),
    *("recursive_doubling", "chain", "binary_tree", "nvls", "sharp", "gloo_reduce"),
    *("parameter_server", "shift", "ring_all_gather", "pairwise"),
)
RUNS = (
    *("h100.csv", "=1\x1b[2J.csv", "log.txt", "small.csv", "latency.txt", "runs.csv", "both.log"),
    *("all.json", "logs", "families"),
)
FAMILIES, SILENT = "families", ("both.log", "latency.txt")
"""A folder with an index, and files that do not say how many ranks took part."""
PROFILES = ("mn5_acc", "h100_cluster", "abci_v100", "profile.yaml", "leonardo_cpu")
HELD_AGAINST = (
    ("leonardo_cpu", "small.csv"),
    ("mn5_acc", "log.txt"),
    ("h100_cluster", "h100.csv"),
    ("profile.yaml", "all.json"),
    ("abci_v100", "logs"),
    ("profile.yaml", "both.log"),
)
"""Profiles, and runs of the same library."""
SWEPT = {
    "bucket": ("strategy", "ddp"),
    "overlap": ("strategy", "ddp:bucket=10MiB"),
    "batch": ("model", "resnet50"),
    "every": ("strategy", "local_sgd"),
    "bound": ("strategy", "ssp"),
    "server": ("strategy", "ssgd"),
}
"""What a swept option is an option of."""
ALWAYS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("sweep",): ("p", "size"),
    ("recommend",): ("p", "size"),
    ("train",): ("model",),
    ("plan",): ("model",),
    ("animate",): ("p",),
    ("measure",): ("p", "size"),
    ("serve",): ("topology",),
    ("calibrate",): ("library",),
}
"""Options without which there is much work, or none."""
_SIZES = ("64KiB", "1MiB", "8B", "0.5MB", "1MiB..16MiB:x4", "1KiB,2KiB", "1000B", "1GiB")
_COUNTS = ("2", "3", "4", "5", "8", "2..6", "2,4,8", "2..8:x2", "7")

VALUES: dict[str, Value] = {
    "algo": _several(*_ALGORITHMS, most=2),
    "algo_word": _of("ring", "tree", "push"),
    "collective": _of("broadcast", "scatter"),
    "root": _of("0", "1"),
    "sharing": _of("fifo", "store-and-forward", "fair", "fair:tolerance=0.01"),
    "force": _of("yes"),
    "explain": _of("64KiB", "1MiB"),
    "nccl_tuner": _of("tuner.csv", "tuner.conf"),
    "chakra": _of("workload", "workload", "a_folder"),
    "groups": _of("0-3;4-7", "0,1 tree; 1-3 stream=1 after=0", "0-6:2 1KiB"),
    "skew": _of("zipf:1.2", "zipf:0,seed=3", "zipf:1,top=2,nodes=1"),
    "matrix": _of("sizes.csv", "chunks.csv"),
    "calibrate_compute": _of("steps.csv"),
    "like": _of("megatron", "torchtitan", "deepspeed"),
    "tokens": _of("15T", "300B", "4096", "1.5K", "0"),
    "orders": _several("gpipe", "1f1b", "zb_v", "interleaved:chunks=3", "zb_auto", "pipeline.csv"),
    "pipeline": _of("1f1b", "zb_v", "interleaved:chunks=3", "pipeline.csv"),
    "times": _of("forward=0s", "inputs=2ms,weights=500us,transfer=10us", "blocking=yes,kept=40"),
    "plan": _of(
        "dp=2,tp=2",
        "pp=2,micro=1,batch=8",
        "zero=3,shard=2",
        "zero=3,lora=4,recompute=op/2",
        "pp=2,layers=embedding+loss,mtp=1,offload=1",
    ),
    "algo_file": _of("middle.py", "middle.py:middle", "ring.xml", "ring.xml:loops=2"),
    "file": _of("middle.py", "ring.xml"),
    "p": _of(*_COUNTS),
    "size": _of(*_SIZES),
    "topology": _of(*SHAPES, *_WITH_OPTIONS, *_MACHINES, *_FILES),
    "bandwidth": _of("50GB/s", "400Gbit/s", "1MB/s", "12.5GB/s", "1B/s", "1PB/s"),
    "latency": _of("1us", "0us", "2.5ms", "100ns", "1s"),
    "gap": _of("0us", "1us", "300ns"),
    "reduction": _of("1TB/s", "10GB/s"),
    "placement": _of(*["node", "round-robin"] * 4, "0,1,2,3", "3,2,1,0", "hosts.conf:n[1-2]"),
    "out": _of("out.csv", "out.csv", "a/../out.csv", "x.xlsx", "out.parquet"),
    "job": _of("yes"),
    "jobs": _of("1", "2", "scheduler.json", "host"),
    "report": _of("page.html", "page.html", "page.md", "new/page.html"),
    "plot": _of("plot.png", "plot.svg", "plot.pdf"),
    "measured": _of("h100.csv", "log.txt", "small.csv", "all.json"),
    "what": _of("algos", "machines", "models", "strategies"),
    "timeline": _of("line.png", "line.svg", "line.pdf", "line.json", "traces", "x.chakra"),
    "profile": _of(*PROFILES),
    "level": _of("0.8", "0.5", "0.99"),
    "library_version": _of("2.16", "2.27.5", "4.1", "new"),
    "model": _of(
        "model.yaml",
        "model.yaml",
        "trace.json",
        "model.json",
        "resnet50:batch=8",
        "vgg16",
        "bert_base",
    ),
    "strategy": _of(
        *(
            "ddp",
            "ddp:algo=ring",
            "ddp:overlap=no,bucket=1MiB",
            "ddp:streams=2,accumulate=2",
            "ddp:find_unused=yes",
        ),
        *(
            "ddp:sync_batch_norm=yes,compress=yes",
            "dp",
            "dp:scatter=no",
            "ssgd",
            "ssgd:pipelined=yes,server=sharded",
        ),
        *("asgd", "asgd:server=sharded", "ssp:bound=1", "ssp:bound=0", "local_sgd"),
        *("local_sgd:every=2,algo=rings", "fsdp", "fsdp:zero=2,wire=bf16,accumulate=2"),
        *(
            "ddp:startup=yes",
            "ddp:launch=10us,slowdown=0.1",
            "ddp:copies=0,hooks=20us,interference=no",
            "ssgd:server=gpu,scatter=yes",
            "ddp:prepare=2ms",
            "ddp:bucket=1MiB,overlap=no,asgd",
        ),
    ),
    "bucket": _of("25MiB", "0", "1KiB"),
    "steps": _of("1", "2", "5", "9"),
    "sweep": _of(
        "bucket=1MiB..4MiB:x2",
        "overlap=yes,no",
        "batch=8,16",
        "every=1,2",
        "bound=0,2",
        "server=gpu,worker",
    ),
    "straggler": _of("1:1.5", "0:2", "1:1.2,0:3"),
    "noise": _of("lognormal:0.1", "noise.txt", "lognormal:0"),
    "slow_link": _of("1:0.5", "0:0.1"),
    "fail": _of("rank=1,step=1,restart=30s", "rank=0,step=2,restart=1s,timeout=10s,checkpoint=1"),
    "batches": _of("1:2", "0:1"),
    "epochs": _of("rate=0.5", "samples=1281167,count=90,pause=10s,rate=12000", "samples=1"),
    "seed": _of("0", "1", "123456789"),
    "learn": _of("softmax:epochs=1", "mlp:epochs=1,hidden=4,rate=0.1"),
    "target": _of(*["module.py:Net", "module.py:make"] * 3, "module.py:wrong", "torch.nn:Identity"),
    "input": _of("2x4", "8x4", "1x4", "1x4:float64", "8x4:int64:9"),
    "batch": _of("1", "4"),
    "device": _of("cpu", "cpu", "cpu", "cuda"),
    "dtype": _of("float32", "float64", "int32", "bfloat16"),
    "optimizer": _of("sgd", "adamw"),
    "effort": _of("budget=100ms", "repetitions=1,warmup=1", "timeout=60s,budget=1s"),
    "init": _of("tcp://localhost:29500"),
    "resume": _of("yes"),
    "ranks": _of("0-3", "0,8", "3-1", "a", "0-9999999", "transfers=no,0"),
    "files": _of(*RUNS),
    "runs": _of(*RUNS),
    "logs": _of(*RUNS),
    "fit": _of("yes"),
    "in_place": _of("yes"),
    "forced": _of("yes"),
    "family": _of("F01", "f02", "none"),
    "only": _of("h100", "log", "runs", "small"),
    "held_out": _of("yes"),
    "tolerance": _of("0.15", "10", "0"),
    "busbw": _of("231GB/s", "1GB/s", "fast"),
    "compare": _of("nccl", "nccl:hopper", "nccl:ampere"),
    "library": _of("nccl", "mpi", "gloo", "fujitsu"),
    "name": _of("mine", "a b"),
    "links": _of("pairs.csv", "pairs.csv", "latency.txt"),
    "source": _of(*_FILES, "dgx1", "hgx_h100:nodes=2", "star"),
}
"""By the name of the parameter."""

OWN: dict[tuple[tuple[str, ...], str], Value] = {
    (("run",), "algo"): _of(*_ALGORITHMS),
    (("report",), "files"): _of("h100.csv", "log.txt", "small.csv", "all.json", "logs", "out.json"),
    (("report",), "out"): _of("page.html", "page.md", "new/page.html"),
    (("run",), "out"): _of("out.json", "out.json", "new/out.json"),
    (("train",), "out"): _of("out.csv", "out.json", "x.xlsx", "out.parquet"),
    (("run",), "p"): _of("2", "3", "4", "5", "8", "16"),
    (("run",), "size"): _of("64KiB", "1MiB", "8B", "0.5MB", "1GiB"),
    (("recommend",), "p"): _of("2", "3", "4", "2,3"),
    (("recommend",), "size"): _of("64KiB", "1KiB,1MiB"),
    (("animate",), "algo"): _of(*_ALGORITHMS),
    (("animate",), "p"): _of("2", "3", "4", "8", "33"),
    (("animate",), "word"): _of("ring", "tree", "push", "dp=2,tp=2"),
    (("pipelines",), "p"): _of("2", "4"),
    (("animate",), "size"): _of("64KiB", "1MiB", "8B"),
    (("animate",), "out"): _of(*["a.html"] * 5, "a.svg"),
    (("train",), "p"): _of("1", "2", "4", "8", "2,4", "1..4:x2"),
    (("validate",), "algo"): _of(
        "ring", "tree", "rings", "double_tree", "halving_doubling", "naive"
    ),
    (("validate",), "logs"): _of(*["h100.csv", "log.txt", "small.csv", "all.json"] * 2, *RUNS),
    (("validate",), "p"): _of("4"),
    (("diagnose",), "p"): _of("4"),
    (("diagnose",), "size"): _of("1MiB", "8GiB", "8B"),
    (("diagnose",), "library"): _of("nccl", "rccl", "openmpi", "mpich", "gloo"),
    (("expect",), "p"): _of("2", "4", "8"),
    (("expect",), "size"): _of("1MiB", "8B,1MiB,1GiB", "1KiB..1MiB:x4"),
    (("expect",), "library"): _of("nccl", "rccl", "openmpi", "mpich", "gloo"),
    (("expect",), "collective_word"): _of("all_reduce", "all_gather", "barrier"),
    (("plan",), "model"): _of("gpt2", "bert_base"),
    (("serve",), "model"): _of("llama3_8b", "gpt2", "gpt_oss_120b", "resnet50"),
    (("serve",), "plan"): _of(
        "tp=1", "tp=8", "tp=8,dp=8,ep=8", "tp=3", "tp=2,pp=2,mtp=2", "2:tp=2", "auto"
    ),
    (("serve",), "prefill"): _of("tp=1", "2:tp=4", "0:tp=2", "tp=3"),
    (("serve",), "chunk"): _of("512", "4096", "1"),
    (("serve",), "timeline"): _of("decode.png", "decode.json", "decode.txt"),
    (("serve",), "p"): _of("1", "2", "8"),
    (("serve",), "topology"): _of("hgx_h200", "b200", "hgx_h100:nodes=2", "star"),
    (("serve",), "precision"): _of("bf16", "fp8", "fp4"),
    (("serve",), "engine"): _of("vllm", "sglang", "trtllm"),
    (("serve",), "isl"): _of("1024", "1", "200000"),
    (("serve",), "osl"): _of("1024", "1", "64"),
    (("serve",), "concurrency"): _of("4", "1..64:x4", "1,512"),
    (("serve",), "ttft"): _of("1s", "100ms", "1us"),
    (("serve",), "tpot"): _of("20ms", "5ms", "1us"),
    (("serve",), "accepted"): _of("0.7", "0", "1"),
    (("serve",), "measured"): _of("points.csv"),
    (("topo", "show"), "name"): VALUES["topology"],
    (("topo", "show"), "p"): _of("2", "4", "8"),
    (("topo", "import"), "out"): _of(*["m.yaml", "m.yml", "m.json", "m.graphml"] * 3, "m.xml"),
    (("measure",), "library"): _of(*["gloo"] * 8, "nccl", "mpi"),
    (("measure",), "p"): _of("2", "2", "2,3", "1"),
    (("measure",), "size"): _of("4KiB", "4KiB,8KiB", "1KiB..16KiB:x4"),
    (("measure",), "collective"): _several(
        "all_reduce", "ring", "broadcast", "barrier", "all_gather", "tree", "naive"
    ),
    (("measure",), "out"): _of("measured.csv", "measured.csv", "measured.csv", "runs.csv"),
    (("calibrate",), "files"): _of("small.csv", "small.csv", *RUNS),
    (("calibrate",), "gap"): _of("yes"),
    (("calibrate",), "out"): _of(*["mine.yaml", "mine.yml"] * 3, "mine.csv"),
    (("calibrate",), "topology"): _of("nodes", "nodes", "star", "nodes:per_node=1"),
    (("profile-model",), "dtype"): _of("fp32", "fp64", "bf16"),
    (("profile-model",), "steps"): _of("1", "2", "scheduler.json", "host"),
    (("profile-model",), "out"): _of(*["net.yaml", "net.yml"] * 3, "net.json"),
}
"""By command and name, where a command means something else by it."""
