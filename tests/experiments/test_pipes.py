"""Pipes, devices, sockets, folders, and files of nothing, of bytes or of too much: no reader waits
for ever or breaks, and a pipe with a writer is read."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.measurements import read as read_measurements
from experiments.models.kineto import contents as read_trace
from experiments.options.condition_parser import parse
from file_readers import READERS as FILE_READERS
from grouped_cases import each_case
from refusals import refusal
from topologies.readers.contents import contents

FORMATS = {
    name: FILE_READERS[name]
    for name in (
        *("measurements", "runs to resume", "topology", "model", "profile"),
        *("noise", "hosts", "serving points", "sizes", "program"),
    )
}
READERS: dict[str, Callable[[Path], object]] = FORMATS | {
    "any": lambda path: contents(path, 100),
    "trace": read_trace,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_without_a_writer_is_refused_at_once(reader: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    message = refusal(lambda: READERS[reader](pipe))
    assert (
        f"{pipe} is a pipe that nobody writes to: start the writer first, or name a file" in message
    )


@each_case("reader", READERS)
def test_a_device_is_refused(reader: str) -> None:
    assert "/dev/zero is a device or a socket" in refusal(
        lambda: READERS[reader](Path("/dev/zero"))
    )


@pytest.mark.parametrize("reader", READERS)
def test_a_socket_is_refused(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        assert "sock" in refusal(lambda: READERS[reader](Path("sock")))


@pytest.mark.parametrize("reader", READERS)
def test_a_folder_is_refused(reader: str, tmp_path: Path) -> None:
    message = "is no file" if reader == "topology" else "is a directory"
    assert message in refusal(lambda: READERS[reader](tmp_path))


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("spoiled")
    data_of = {"empty": b"", "bytes": b"\xff\xfe\x00" * 40, "large": b"#" * (2**26 + 1)}
    for name, data in data_of.items():
        (folder / f"{name}.json").write_bytes(data)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("reader", FORMATS)
def test_a_file_of_nothing_of_bytes_or_of_too_much_is_refused(
    reader: str, spoiled: list[Path]
) -> None:
    for file in spoiled:
        assert file.name in refusal(READERS[reader], file)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["missing", "a\0b", "x" * 5000])
def test_a_file_that_is_not_there_is_refused(reader: str, name: str, tmp_path: Path) -> None:
    refusal(lambda: READERS[reader](tmp_path / name))


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe, text = (
        tmp_path / "pipe",
        b"size_bytes,time_us\n" + b"".join(b"%d,1.5\n" % size for size in range(8, 40_000)),
    )
    os.mkfifo(pipe)
    ready = os.open(pipe, os.O_RDWR)

    def write() -> None:
        pipe.write_bytes(text)
        os.close(ready)

    threading.Thread(target=write).start()
    assert len(read_measurements(pipe).curves[0].points) == 39_992


def test_a_pipe_without_a_name_is_read_as_a_shell_hands_it_over() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"size_bytes,time_us\n8,1.5\n")
    os.close(theirs)
    try:
        assert len(read_measurements(Path(f"/dev/fd/{ours}")).curves[0].points) == 1
    finally:
        os.close(ours)


@pytest.mark.parametrize("size", [0, 3, 4, 5, 9])
def test_one_byte_more_than_the_limit_is_read(size: int, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * size)
    assert contents(file, 4) == b"x" * min(size, 5)


def test_observed_times_are_not_read_from_a_pipe_without_a_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "nobody writes to" in refusal(lambda: parse(noise=str(pipe)))
