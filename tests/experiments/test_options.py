"""What a terminal completes."""

from experiments.options import algorithm_names, completer, machine_names, measured_names, profile_names


def test_completion_knows_algorithms_and_shapes() -> None:
    assert completer(algorithm_names)("ring,tre") == ["ring,tree", "ring,tree_reduce", "ring,tree_broadcast"]
    assert "star" in completer(machine_names)("s")


def test_the_last_of_a_list_is_completed() -> None:
    assert completer(lambda: ["ring", "rings", "tree"])("tree,ri") == ["tree,ring", "tree,rings"]
    assert completer(lambda: ["ring"])("x") == []


def test_what_is_measured_is_the_librarys_and_ours() -> None:
    assert {"all_reduce", "barrier", "ring"} <= set(measured_names())
    assert "leonardo_cpu" in profile_names()
