"""Compiled code is loaded only from files and folders that nobody but this user can write."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compiling_processes import COMPILE_ONE, DEPTHS, run
from simulator.kernels import dependencies
from topologies._compile import code_cache
from topologies._compile.native import Code

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files without owners and modes")
CODE = Code(("PyExc_ValueError",), b"an object file")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file of compiled code, two folders deep."""
    place = tmp_path / "cache" / "versions" / "kernel"
    place.parent.mkdir(parents=True)
    code_cache._write(place, CODE)
    return place


def loaded(place: Path) -> bytes:
    with open(place, "rb", opener=code_cache._private) as file:
        return file.read()


def test_code_of_this_user_is_loaded(place: Path) -> None:
    assert code_cache._read(place) == CODE


FOREIGN: dict[str, Callable[[Path], object]] = {
    "world-writable folder": lambda place: place.parent.chmod(0o777),
    "sticky folder": lambda place: place.parent.chmod(0o1777),
    "group-writable folder": lambda place: place.parent.chmod(0o775),
    "world-writable folder above": lambda place: place.parent.parent.chmod(0o777),
    "world-writable file": lambda place: place.chmod(0o666),
    "group-writable file": lambda place: place.chmod(0o664),
    "sticky file": lambda place: place.chmod(0o1666),
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_what_others_can_write_is_not_loaded(change: Callable[[Path], object], place: Path) -> None:
    change(place)
    with pytest.raises(PermissionError, match="another user can write"):
        loaded(place)


def test_a_file_is_no_link(place: Path) -> None:
    place.rename(place.with_name("other"))
    place.symlink_to("other")
    with pytest.raises(OSError, match="symbolic links"):
        loaded(place)


def test_a_sticky_folder_above_may_be_of_all(place: Path) -> None:
    place.parent.parent.chmod(0o1777)
    assert code_cache._read(place) == CODE


def test_a_link_to_a_folder_of_this_user_is_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place.parent)
    assert loaded(tmp_path / "link" / place.name) == loaded(place)


def test_behind_a_link_the_way_to_the_folder_counts(place: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place.parent)
    place.parent.parent.chmod(0o777)
    with pytest.raises(PermissionError, match=r"another user can write .*/cache'"):
        loaded(tmp_path / "link" / place.name)


def test_a_link_in_a_folder_of_all_is_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o777)
    (tmp_path / "all" / "link").symlink_to(place.parent)
    with pytest.raises(PermissionError, match=r"another user can write .*/all'"):
        loaded(tmp_path / "all" / "link" / place.name)


def test_code_of_another_user_is_not_loaded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    code_cache._warn.cache_clear()
    with pytest.raises(PermissionError, match="another user can write"):
        loaded(place)
    with pytest.warns(RuntimeWarning, match="another user can write .* so it is not loaded"):
        assert code_cache._read(place) is None


def owner(stat: Callable[..., os.stat_result], name: str) -> Callable[..., os.stat_result]:
    """`stat`, by which another user owns all that has this name."""

    def other(path: object, *options: object, **further: object) -> os.stat_result:
        state = stat(path, *options, **further)
        place = Path(f"/proc/self/fd/{path}").readlink() if isinstance(path, int) else path
        of = 4321 if Path(str(place)).name == name else state.st_uid
        return os.stat_result((*state[:4], of, *state[5:]))

    return other


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no names of open files")
@pytest.mark.parametrize("name", ["cache", "versions", "kernel"])
def test_each_owner_counts(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("fstat", "lstat"):
        monkeypatch.setattr(os, function, owner(getattr(os, function), name))
    monkeypatch.setattr(Path, "lstat", lambda path: os.lstat(path))
    with pytest.raises(PermissionError, match=f"another user can write .*{name}'"):
        loaded(place)


def test_what_is_opened_is_what_is_checked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody puts another file there between the check and the reading."""
    before, check = loaded(place), os.fstat

    def replaced(file: int) -> os.stat_result:
        place.with_name("foreign").write_bytes(b"foreign")
        place.with_name("foreign").replace(place)
        return check(file)

    with monkeypatch.context() as patches:
        patches.setattr(os, "fstat", replaced)
        assert loaded(place) == before
    assert loaded(place) == b"foreign"


def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    folder, umask = tmp_path / "a" / "b", os.umask(0)
    try:
        assert code_cache._problem.__wrapped__(folder) == ""
        code_cache._write(folder / "kernel", CODE)
    finally:
        os.umask(umask)
    assert code_cache._read(folder / "kernel") == CODE
    assert {path.stat().st_mode & 0o022 for path in (tmp_path / "a").rglob("*")} == {0}


def test_a_foreign_lock_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear reader")
    (tmp_path / "lock").symlink_to("letter")
    with pytest.raises(OSError, match="/lock'"):
        open(tmp_path / "lock", "w", opener=code_cache._private).close()
    assert (tmp_path / "letter").read_text() == "dear reader"


def test_in_a_folder_of_all_a_process_compiles_in_memory_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMCTL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(code_cache, "folder", code_cache.folder.__wrapped__)
    place = code_cache._place.__wrapped__(dependencies.chain)
    place.parent.mkdir()
    code_cache._write(place, Code((), b"foreign"))
    content = place.read_bytes()
    place.parent.chmod(0o777)
    answer, error = run(COMPILE_ONE, SIMCTL_CACHE_DIR=str(tmp_path))
    assert answer == {"depths": DEPTHS, "built": True}
    assert error.count("compiled code is not cached: another user can write ") == 1
    assert error.count("Warning: ") == 1
    assert [*place.parent.iterdir()] == [place]
    assert place.read_bytes() == content


@pytest.mark.exhaustive
def test_a_file_that_others_can_write_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMCTL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(code_cache, "folder", code_cache.folder.__wrapped__)
    place = code_cache._place.__wrapped__(dependencies.chain)
    place.parent.mkdir()
    code_cache._write(place, Code((), b"foreign"))
    place.chmod(0o664)
    answer, error = run(COMPILE_ONE, SIMCTL_CACHE_DIR=str(tmp_path))
    assert answer == {"depths": DEPTHS, "built": True}
    assert error.count("Warning: ") == error.count(f"another user can write {str(place)!r}") == 1
    assert place.stat().st_mode & 0o022 == 0
    assert b"foreign" not in place.read_bytes()
