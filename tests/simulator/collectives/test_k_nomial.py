"""k-nomial trees."""

from grouped_cases import each_case
from simulator.collectives import find
from simulator.collectives.k_nomial import children, k_nomial_broadcast
from simulator.engines import simulate
from topologies.shapes import full_mesh, star


def test_with_radix_two_it_is_a_binomial_tree() -> None:
    topology = star(16, bandwidth=1.0, latency=0.5)
    times = [
        simulate(schedule, topology).makespan
        for schedule in (
            find("tree_broadcast").build(16, 1.0),
            k_nomial_broadcast(16, 1.0, radix=2),
        )
    ]
    assert times == [8.0, 8.0]


@each_case("radix", [2, 3, 4, 9])
@each_case("ranks", [2, 3, 10, 33])
def test_every_rank_but_0_has_one_parent(ranks: int, radix: int) -> None:
    below = [child for _, numbers in children(ranks, radix) for child in numbers.tolist()]
    assert sorted(below) == list(range(1, ranks))


def test_a_radix_beyond_the_ranks_is_a_linear_tree() -> None:
    for radix in (6, 10**12):
        ((parent, below),) = children(6, radix)
        assert (parent, below.tolist()) == (0, [1, 2, 3, 4, 5])


def test_levels_by_hand() -> None:
    # 16 ranks, radix 4, a port a peer: two levels of 1 s and a latency of 0.5 s.
    schedule = k_nomial_broadcast(16, 1.0)
    assert simulate(schedule, full_mesh(16, bandwidth=1.0, latency=0.5)).makespan == 3.0


def test_the_root_sends_each_segment_to_all_its_children() -> None:
    # 4 ranks, radix 4: three children, 2 segments of half a second each.
    schedule = k_nomial_broadcast(4, 1.0, segments=2)
    assert simulate(schedule, star(4, bandwidth=1.0)).makespan == 3.0
