"""The page with the animation of a collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from experiments.animation.colours import rank_colours
from experiments.animation.film import Act, Film
from experiments.animation.sentences import Speaker
from experiments.animation.shown_values import shown_values
from experiments.animation.stage import HEAD, Stage
from experiments.animation.tree_picture import NOTE, tree_figure, trees
from experiments.output import Value, counted
from experiments.pages.inline_svg import inline_svg
from experiments.pages.packed import pack
from experiments.pages.page import Facts, Figure, Page, Scene

MOST_SENTENCES = 2_000
"""Operations that are all described; of more, each step has a sentence."""
MOST_STEPS = 4_000
"""Steps of a memory curve that a page holds; of more, some are left out."""
SUMS = (
    "A bar is a slot of a rank's buffer. Its stripes are the contributions that it holds: stripe 2 "
    "is that of rank 2. A bar with all stripes, a frame and a tick is complete."
)
MOVES = (
    "A bar is a slot of a rank's buffer. Its colour and number say which rank's data it holds. A "
    "bar with a frame and a tick holds what the collective promises. An empty bar holds nothing "
    "that is needed."
)
REST = (
    "Dashed bars are scratch. busbw so far takes the share of all bytes that has been sent for the "
    "share of V that is done. redundant is duplicate data over all ranks. Equal steps give each "
    "step the same time, simulated time shows who waits. Keys: space plays, arrows step, Home "
    "and End jump."
)


def collective_page(
    film: Film, name: str, facts: Sequence[str], parameters: Mapping[str, Value]
) -> Page:
    """The page: `name` is its title, `facts` are sentences about the run."""
    sums = film.acts["simulated time"].run.promise.whole > 1
    note = f"{SUMS if sums else MOVES} {REST}"
    shown = {key: str(value) for key, value in parameters.items() if value not in (None, False)}
    return Page(
        name,
        facts,
        [
            Scene("Animation", "animation", scene_data(film), note, helpers=("player",)),
            *_trees(film),
            Facts("Parameters", shown),
        ],
    )


def _trees(film: Film) -> list[Figure]:
    """A picture of the trees that slots are sent along, if there are any."""
    if not (kinds := trees(film.schedule)):
        return []
    title = counted(len(kinds), "tree")
    svg = inline_svg(tree_figure(film.schedule, kinds), "trees", title)
    return [Figure(title, svg, NOTE)]


def scene_data(film: Film) -> dict[str, object]:
    """What the script draws."""
    schedule, slots = film.schedule, film.slots
    used = schedule.source >= 0
    both = used & (schedule.target >= 0)
    source = np.where(both, slots.number[schedule.rank, schedule.source], -1)
    target = np.where(both, slots.number[schedule.peer, schedule.target], -1)
    scratch = (slots.rank >= schedule.workers) | (slots.slot >= schedule.buffer)
    thinned = slice(None, None, -(-len(film.memory.times) // MOST_STEPS))
    return {
        "names": film.names,
        "colours": rank_colours(schedule.workers),
        "sums": film.acts["simulated time"].run.promise.whole > 1,
        "workers": schedule.workers,
        "busbw": film.busbw,
        "makespan": film.timeline.makespan,
        "stages": [_stage(film.wide), _stage(film.narrow)],
        "operations": pack(
            {
                "rank": schedule.rank,
                "peer": schedule.peer,
                "source": source,
                "target": target,
                "count": schedule.count,
                "nbytes": np.where(schedule.remote, schedule.nbytes, 0.0),
                "reduces": schedule.reduces,
                "way": film.timeline.routed.route,
                "step": film.depth,
            }
        ),
        "slots": pack(
            {
                "rank": slots.rank,
                "place": slots.place,
                "label": slots.slot - schedule.buffer * (slots.slot >= schedule.buffer),
                "scratch": scratch,
            }
        ),
        "memory": pack(
            {"time": film.memory.times[thinned], "redundant": film.memory.redundant[thinned]}
        ),
        "seconds": film.acts["simulated time"].clock.marks.tolist(),
        "acts": [_act(film, name, act) for name, act in film.acts.items()],
    }


def _stage(stage: Stage) -> dict[str, object]:
    devices = [[device.name, device.x, device.y, device.width] for device in stage.devices]
    card = {**vars(stage.card), "head": HEAD}
    return {**vars(stage), "card": card, "ranks": stage.ranks.tolist(), "devices": devices}


def _act(film: Film, name: str, act: Act) -> dict[str, object]:
    run, schedule = act.run, film.schedule
    speaker = Speaker(run)
    writes = run.writes[: act.writes]
    operation = np.array([write.operation for write in run.writes], dtype=np.int32)
    carried = np.full(len(schedule), -1, dtype=np.int32)
    # A message of several slots shows the first of them.
    carried[operation[::-1]] = [write.carried for write in reversed(run.writes)]
    promise, number = run.promise.cells, {value: k for k, value in enumerate(run.values.sets)}
    promised = [promise.get(cell) for cell in act.cells.tolist()]
    number_of = film.slots.number.ravel()
    described = len(schedule) <= MOST_SENTENCES
    return {
        "name": name,
        "end": act.end,
        "part": act.clock.part,
        "marks": act.clock.marks.tolist(),
        "titles": act.titles,
        "steps": act.sentences,
        "sentences": [speaker.operation(k) for k in range(len(schedule))] if described else [],
        "wrong": act.wrong and {"slot": act.wrong.place, "text": act.wrong.text},
        "columns": pack(
            {
                "start": act.clock.start,
                "finish": act.clock.finish,
                "carried": carried,
                "operation": operation[: act.writes],
                "slot": number_of[[write.cell for write in writes]],
                "value": np.array([write.value for write in writes], dtype=np.int32),
                "first": np.array(run.first)[act.cells],
                "promised": np.array([-1 if p is None else number.get(p, -1) for p in promised]),
                **_value_columns(act),
            }
        ),
    }


def _value_columns(act: Act) -> dict[str, npt.NDArray[np.int64]]:
    """Of each value: a bit for each rank whose data are in it, how many contributions these are,
    and the slot of the only one, or -1."""
    shown = shown_values(act.run)
    return {
        "ranks": np.array([sum(1 << rank for rank in value.ranks) for value in shown]),
        "count": np.array([value.number for value in shown]),
        "origin": np.array([-1 if value.origin is None else value.origin for value in shown]),
    }
