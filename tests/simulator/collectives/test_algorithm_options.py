"""Options and roots of algorithms."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import NAMES
from refusals import message_of, refusal
from simulator.analysis.bounds import best_bound, bounds
from simulator.collectives import algorithms, find
from simulator.collectives.algorithm_options import best, names_in, with_values
from simulator.collectives.collective import BROADCAST, Algorithm, Fitted
from simulator.collectives.roots import from_root, members, turned
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.errors import InputError
from topologies.shapes import SHAPES, line, star
from topologies.topology import Topology

RINGS = ("ring", "ring_reduce_scatter", "ring_all_gather")
SEGMENTED = [name for name, algorithm in algorithms().items() if "segments" in algorithm.options]


def test_options_stand_behind_the_name() -> None:
    segmented = find("ring:channels=2,segments=3")
    assert segmented.name == "ring:channels=2,segments=3"
    assert segmented.listed_name == "ring"
    assert len(segmented.build(4, 1.0)) == 6 * len(find("ring").build(4, 1.0))
    assert pickle.loads(pickle.dumps(segmented)) is segmented


def test_defaults_are_the_algorithm_itself() -> None:
    assert find("ring:segments=1,channels=1") is find("ring")
    assert find("ring:segments=3,channels=1") is find("ring:segments=3")
    assert find("map_reduce:map_us=0") is find("map_reduce"), "work may take no time"


def test_names_and_options_in_one_list() -> None:
    text = "ring:channels=4,segments=8, tree,chain_reduce:segments=2,ring"
    names = ["ring:channels=4,segments=8", "tree", "chain_reduce:segments=2", "ring"]
    assert names_in(text) == names


def test_an_unknown_option_leads_to_the_list() -> None:
    assert "has no option 'segment'" in message_of(find, "ring:segment=2")


@each_case("name", SEGMENTED)
def test_segments_keep_the_promise(name: str) -> None:
    for segments in (1, 3):
        algorithm = with_values(find(name), {"segments": segments})
        for ranks in (2, 3, 6):
            schedule = algorithm.build(ranks, 720.0)
            semantics.check(schedule, algorithm.collective)
            assert schedule.volume == pytest.approx(algorithm.cost.volume(ranks) * 720.0)
            assert schedule.steps == algorithm.cost.steps(ranks)


VARIANTS = (
    "blue_connect:levels=2",
    "bruck_all_gather:radix=3",
    "bruck_all_to_all:radix=4",
    "k_nomial_broadcast:radix=3,segments=3",
    "split_binary_broadcast:segments=3",
    "k_nomial_reduce:radix=3,segments=3",
    "pairwise_sync:window=2",
    "pat_all_gather:chunks=2",
    "pat_reduce_scatter:chunks=1",
)
"""Options that change more than the number of messages."""


@pytest.mark.parametrize("shape", ["star", "full_mesh", "full_mesh_one_port"])
@pytest.mark.parametrize("name", VARIANTS)
def test_options_keep_the_promise_and_the_time(name: str, shape: str) -> None:
    algorithm = find(name)
    for ranks in (2, 3, 4, 5, 8, 9, 13):
        schedule = algorithm.build(ranks, 1024.0 * ranks)
        semantics.check(schedule, algorithm.collective)
        assert schedule.volume == pytest.approx(algorithm.cost.volume(ranks) * (1024.0 * ranks))
        assert schedule.steps == algorithm.cost.steps(ranks)
        topology = SHAPES[shape](ranks, bandwidth=1e9, latency=2e-6, gap=1e-6)
        timeline = simulate(schedule, topology)
        fabric = observe(timeline.routed)
        if not algorithm.cost.holds(fabric):
            time = algorithm.cost.time(fabric, ranks, 1024.0 * ranks)
            assert timeline.makespan == pytest.approx(time, rel=1e-9)


@given(
    name=st.sampled_from(RINGS),
    shape=st.sampled_from(["ring", "star", "full_mesh", "full_mesh_one_port"]),
    ranks=st.integers(2, 7),
    parts=st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(1, 2)),
    numbers=st.tuples(*[st.sampled_from([0.0, 1e-6, 1e-4])] * 2),
    merging=st.sampled_from([0.0, 1e-10, 1e-9, 1e-8]),
    nbytes=st.sampled_from([1e3, 1e5, 1e6]),
)
def test_parts_of_a_ring_take_the_time_of_the_formula(
    name: str,
    shape: str,
    ranks: int,
    parts: tuple[int, int, int],
    numbers: tuple[float, float],
    merging: float,
    nbytes: float,
) -> None:
    options = dict(zip(("channels", "segments", "ways"), parts, strict=True))
    algorithm = with_values(find(name), options)
    schedule = algorithm.build(ranks, nbytes)
    semantics.check(schedule, algorithm.collective)
    latency, gap = numbers
    topology = SHAPES[shape](ranks, bandwidth=1e9, latency=latency, gap=gap, reduction=merging)
    timeline = simulate(schedule, topology, "compiled")
    fabric = observe(timeline.routed)
    if not algorithm.cost.holds(fabric):
        time = algorithm.cost.time(fabric, ranks, nbytes)
        assert timeline.makespan == pytest.approx(time, rel=1e-9)


@each_case(
    ("name", "shape", "merging", "words"),
    [
        ("ring:segments=4", "star", 1e-9, ""),
        ("ring:segments=2,ways=2", "ring", 0.0, ""),
        ("ring:segments=4", "star", 1e-8, "slow additions"),
    ],
)
def test_the_formula_is_claimed_with_segments(
    name: str, shape: str, merging: float, words: str
) -> None:
    topology = SHAPES[shape](6, bandwidth=1e9, latency=1e-6, gap=0.0, reduction=merging)
    timeline = simulate(find(name).build(6, 1.0), topology)
    assert find(name).cost.holds(observe(timeline.routed)) == words


def seconds_on(topology: Topology, nbytes: float, algorithm: Algorithm) -> float:
    return simulate(algorithm.build(topology.ranks, nbytes), topology, "compiled").makespan


@pytest.mark.parametrize("nbytes", [1e4, 1e6, 3e7])
@pytest.mark.parametrize("ranks", [3, 8])
def test_the_best_segments_of_a_chain_are_those_of_the_formula(nbytes: float, ranks: int) -> None:
    """The formula's optimum is m = sqrt((p - 2)V/(gβ))."""
    topology = star(ranks, bandwidth=1e9, latency=1e-6, gap=1e-6)
    chain = find("chain_broadcast:segments=best")
    tuned = best(chain, ranks, lambda option: seconds_on(topology, nbytes, option))
    segments = tuned.options["segments"]
    optimum = ((ranks - 2) * nbytes / (1e-6 * 1e9)) ** 0.5
    assert segments == pytest.approx(optimum, abs=1)
    assert tuned is find(f"chain_broadcast:segments={segments}")


def test_the_best_segments_are_more_than_those_that_change_nothing() -> None:
    """Two chains have equally many pieces, so one segment is as good as two."""
    topology = SHAPES["ring"](4, bandwidth=1e9, latency=1e-6, gap=1e-6)

    def seconds(algorithm: Algorithm) -> float:
        return simulate(algorithm.on(topology, 4, 1e6).schedule, topology).makespan

    tuned = best(find("chains_broadcast:segments=best"), 4, seconds)
    even = [find(f"chains_broadcast:segments={number}") for number in range(2, 100, 2)]
    assert seconds(tuned) == min(map(seconds, even))


@pytest.mark.parametrize(
    ("option", "values"), [("ring:ways", (1, 2)), ("bruck_all_gather:radix", (2, 3, 4, 5))]
)
def test_values_that_do_not_exist_are_not_the_best(option: str, values: tuple[int, ...]) -> None:
    topology = SHAPES["ring"](5, bandwidth=1e9, latency=1e-6)
    tuned = best(find(f"{option}=best"), 5, lambda each: seconds_on(topology, 1e6, each))
    times = [seconds_on(topology, 1e6, find(f"{option}={value}")) for value in values]
    assert seconds_on(topology, 1e6, tuned) == min(times)


def test_the_best_option_of_nothing_that_runs_is_an_error() -> None:
    def refused(option: Algorithm) -> float:
        raise InputError(f"{option.name} needs another machine")

    assert refusal(best, find("ring:ways=best"), 4, refused) == "ring needs another machine"


def test_the_best_option_keeps_the_root() -> None:
    topology = star(4, bandwidth=1e9, latency=1e-6, gap=1e-6)
    chain = from_root(find("chain_broadcast:segments=best"), 2)
    tuned = best(chain, 4, lambda option: seconds_on(topology, 1e6, option))
    assert tuned.collective.root == 2
    assert tuned.name == "chain_broadcast:segments=45"


def test_several_options_are_searched_together() -> None:
    topology = star(4, bandwidth=1e9, latency=1e-5, gap=1e-7)
    ring = find("ring:channels=best,segments=best")
    tuned = best(ring, 4, lambda option: seconds_on(topology, 1e6, option))
    parts = tuned.options["channels"] * tuned.options["segments"]
    wanted = min(
        range(1, 65), key=lambda m: seconds_on(topology, 1e6, with_values(ring, {"segments": m}))
    )
    assert parts == pytest.approx(wanted, abs=1)


def test_one_segment_is_best_where_messages_are_small() -> None:
    topology = star(4, bandwidth=1e9, latency=1e-6, gap=1e-3)
    tuned = best(find("ring:segments=best"), 4, lambda option: seconds_on(topology, 8.0, option))
    assert tuned is find("ring")


ROOTED = [name for name in NAMES if algorithms()[name].collective.root is not None]
every_rooted = pytest.mark.parametrize("name", ROOTED)


def test_these_collectives_have_roots() -> None:
    rooted = {algorithms()[name].collective.name for name in ROOTED}
    assert {"broadcast", "reduce", "scatter", "gather"} <= rooted


@every_rooted
@each_case("ranks", [2, 3, 6])
def test_promises_are_kept_from_every_root(name: str, ranks: int) -> None:
    algorithm = find(name)
    for root in range(ranks):
        rooted = from_root(algorithm, root)
        schedule = rooted.build(ranks, 1024.0)
        semantics.check(schedule, rooted.collective)
        assert schedule.volume == pytest.approx(rooted.cost.volume(ranks) * 1024.0)
        assert schedule.steps == rooted.cost.steps(ranks)
        if root:
            with pytest.raises(semantics.WrongResult):
                semantics.check(schedule, algorithm.collective)


@every_rooted
def test_a_root_takes_the_same_time_where_all_ranks_are_alike(name: str) -> None:
    machine = star(6, bandwidth=1e9, latency=1e-6, gap=1e-6)
    times = {
        simulate(from_root(find(name), root).build(6, 1e6), machine).makespan for root in range(6)
    }
    assert max(times) == pytest.approx(min(times), rel=1e-12)


@given(
    name=st.sampled_from(ROOTED),
    shape=st.sampled_from([shape for shape in SHAPES if shape != "hypercube"]),
    ranks=st.integers(2, 9),
    data=st.data(),
)
def test_nothing_beats_a_bound_from_any_root(
    name: str, shape: str, ranks: int, data: st.DataObject
) -> None:
    rooted = from_root(find(name), data.draw(st.integers(0, ranks - 1)))
    topology = SHAPES[shape](ranks, bandwidth=1e9, latency=1e-5)
    makespan = simulate(rooted.build(ranks, 1e6), topology).makespan
    for bound in bounds(rooted.collective, topology, ranks, 1e6):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


def test_the_bound_is_that_of_the_root() -> None:
    """In a line, the ends are farther apart than the middle from either."""
    machine = line(5, bandwidth=1e9, latency=1.0)
    latencies = [
        best_bound(from_root(find("tree_broadcast"), root).collective, machine, 5, 1.0).seconds
        for root in range(5)
    ]
    assert latencies == [4.0, 3.0, 2.0, 3.0, 4.0]


def test_chunks_go_to_their_ranks() -> None:
    """The root of a scatter has chunk 0, the next rank chunk 1."""
    rooted = from_root(find("gloo_scatter"), 2)
    before = np.arange(9, dtype=np.uint64).reshape(3, 3)
    promised, values = rooted.collective.postcondition(before, None)
    assert [np.flatnonzero(row).tolist() for row in promised] == [[1], [2], [0]]
    assert values[2, 0] == before[2, 0]


def test_an_algorithm_that_is_made_for_a_machine_is_made_for_its_root() -> None:
    seen = list[int]()

    def fit(topology: Topology, ranks: int, nbytes: float) -> Fitted:
        seen.append(int(topology.placement[0]))
        chain = find("chain_broadcast")
        return Fitted(chain.schedule(ranks, nbytes), topology, chain.cost)

    from dataclasses import replace

    fitted = from_root(replace(find("chain_broadcast"), fit=fit), 2).on(
        star(4, bandwidth=1e9), 4, 8.0
    )
    assert seen == [int(star(4, bandwidth=1e9).placement[2])]
    assert fitted.topology.placement.tolist() == star(4, bandwidth=1e9).placement.tolist()
    assert fitted.schedule.sent().tolist() == [8.0, 0.0, 8.0, 8.0]


def test_ranks_are_counted_from_the_root() -> None:
    assert members(4, 3).tolist() == [3, 0, 1, 2]
    machine = star(5, bandwidth=1e9)
    assert turned(machine, 4, 3).placement.tolist() == machine.placement[[3, 0, 1, 2, 4]].tolist()


def test_a_rooted_algorithm_goes_to_other_processes() -> None:
    rooted = from_root(find("tree_broadcast"), 2)
    again = pickle.loads(pickle.dumps(rooted))
    assert again.collective == rooted.collective
    assert again.build(4, 1.0).sent().tolist() == rooted.build(4, 1.0).sent().tolist()


def test_roots_that_there_are_not_are_refused() -> None:
    chain = find("chain_broadcast")
    assert refusal(from_root, find("ring"), 1) == "ring is all_reduce, which has no root"
    assert refusal(from_root, chain, -1) == "the root is -1: ranks run from 0"
    assert refusal(from_root(chain, 4).build, 4, 1.0) == "the root is 4: 4 ranks run from 0 to 3"
    assert refusal(from_root, from_root(chain, 1), 2) == (
        "chain_broadcast starts from root 1 already"
    )
    assert from_root(chain, 0) is chain
    assert BROADCAST.root == 0
