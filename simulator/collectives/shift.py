"""Send and receive: every rank sends its buffer to the next, as nccl-tests' sendrecv does."""

from simulator.collectives.collective import SEND_RECV, Algorithm
from simulator.cost_models import neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, fold, rotations


def shift_send_recv(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """One step round the ring. The data arrive in scratch and then replace the buffer."""
    shift = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=1, phase="send")
    rank = shift.each()
    shift.copy(rank, (rank + 1) % ranks, slot=0, target=1)
    shift.phase("unpack")
    shift.copy(rank, rank, slot=1, target=0)
    return shift.build()


ALGORITHMS = (
    Algorithm(
        "shift",
        SEND_RECV,
        shift_send_recv,
        neighbors.SHIFT,
        "every rank sends to the next rank",
        shifts=rotations,
    ),
)
