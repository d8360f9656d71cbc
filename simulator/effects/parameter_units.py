"""The units of a profile's parameters, with the values that make sense: files are checked by
them."""

from typing import Annotated

from annotated_types import Interval, Len

Word = Annotated[str, Len(1, 200)]
Count = Annotated[int, Interval(ge=1, le=10**9)]
Seconds = Annotated[float, Interval(ge=0, le=1e9)]
"""Seconds, also for each byte."""
Bytes = Annotated[float, Interval(gt=0, le=1e18)]
"""Bytes, also in each second."""
Power = Annotated[float, Interval(ge=-10, le=10)]
