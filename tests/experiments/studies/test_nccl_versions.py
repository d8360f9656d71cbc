"""What a newer version of NCCL changes."""

from pathlib import Path

import pytest

from experiments.studies.nccl_versions import main
from topologies.errors import InputError

HEADER = "machine,library,version_in_file,collective,dtype,ranks,size_bytes,time_us"


def row(version: str, size: int, time: float, collective: str = "all_gather") -> str:
    return f"h200_sxm,nccl,{version},{collective},float16,8,{size},{time}"


def written(folder: Path, *rows: str) -> Path:
    (folder / "nccl.csv").write_text("\n".join((HEADER, *rows)))
    return folder


def test_ratios_are_medians_of_shared_sizes(tmp_path: Path) -> None:
    """2.9 is older than 2.29.2. A point that was measured twice counts by its median, and points of
    one version alone do not count."""
    older = [row("2.9", 512, 10.0), row("2.9", 1024, 10.0), row("2.9", 2**24, 100.0)]
    newer = [row("2.29.2", 512, 8.0), row("2.29.2", 512, 12.0), row("2.29.2", 1024, 20.0)]
    newer += [row("2.29.2", 2**24, 90.0), row("2.29.2", 2**25, 1.0)]
    table = main(written(tmp_path, *older, *newer, row("2.9", 512, 1.0, "all_reduce")))
    assert table.splitlines()[2:] == ["| H200 | 2.9 to 2.29.2 | all_gather | 1.41 | - | 0.90 | - |"]


def test_one_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no machine has two versions of NCCL"):
        main(written(tmp_path, row("2.27.5", 512, 9.0)))
