"""What NCCL says that it ran, point by point."""

from pathlib import Path

from experiments.measure.nccl_log import NcclLog
from experiments.measure.points import points

LINE = "node1:42:43 [0] NCCL INFO {}: {} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..7}}\n"


def test_each_point_has_what_ran_since_the_last_one() -> None:
    environment: dict[str, str] = {}
    log = NcclLog(environment)
    assert environment["NCCL_DEBUG"] == "INFO"
    assert environment["NCCL_DEBUG_SUBSYS"] == "TUNING"
    path = Path(environment["NCCL_DEBUG_FILE"])
    small, large = points(["all_reduce"], [1024.0, 2.0**20], 4, "float32")
    [gather] = points(["all_gather"], [4096.0], 4, "float32")
    assert log.ran(small, 4) == ""
    with path.open("a") as file:
        file.write("node1:42:43 [0] NCCL INFO Bootstrap: Using eth0\n")
        file.write(LINE.format("AllReduce", 1, "TREE", "LL"))  # a barrier
        file.write(LINE.format("AllReduce", 1024, "TREE", "LL") * 3)
        file.flush()
        assert log.ran(small, 4) == "tree LL"
        assert log.ran(small, 4) == ""
        file.write(LINE.format("AllReduce", 2**20, "RING", "LL128"))
        file.write(LINE.format("AllReduce", 2**20, "RING", "SIMPLE"))
        file.flush()
        assert log.ran(large, 4) == ""  # it changed its mind
        file.write(LINE.format("AllGather", 1024, "RING", "SIMPLE"))  # bytes of a rank
        file.flush()
        assert log.ran(gather, 4) == "ring_all_gather Simple"


def test_what_the_user_has_set_stays() -> None:
    environment = {"NCCL_DEBUG": "WARN"}
    [point] = points(["all_reduce"], [1024.0], 4, "float32")
    assert NcclLog(environment).ran(point, 4) == ""
    assert environment == {"NCCL_DEBUG": "WARN"}
