"""Links between nodes slow down as jobs grow."""

import pytest

from experiments.calibration.libraries import NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import curve


def test_growth_is_a_parameter_where_jobs_have_several_numbers_of_nodes() -> None:
    single_job = Model(FitPoints([curve("all_reduce", ("ring",))]), NCCL)
    assert "network α by nodes" not in single_job.index
    assert single_job.profile(single_job.start).crowding == {}
    several = Model(
        FitPoints([curve("all_reduce", ("ring",)), curve("all_reduce", ("ring",), 32, 8)]), NCCL
    )
    slow = several.start.copy()
    slow[several.index["network 1/β by nodes"]] = 1.0
    crowding = several.profile(slow).crowding["network"]
    assert (crowding.nodes, crowding.most) == pytest.approx((4.0, 8.0))
    assert crowding.slower(8.0) == pytest.approx([1.0, 2.0])


def test_growth_ends_at_the_most_nodes_that_a_fit_sees() -> None:
    model = Model(
        FitPoints([curve("all_reduce", ("ring",)), curve("all_reduce", ("ring",), 32, 8)]), NCCL
    )
    fewer = model.seeing(model.points.nodes < 8)
    assert fewer.profile(model.start).crowding["network"].most == 2.0
    assert model.profile(model.start).crowding["network"].most == 8.0
