"""Times of single kernels by shape, precision and engine, learnt from measured ones.

A kind of kernel (:mod:`.products`, ...) is a formula of a few values and a grid:

    log seconds = log formula(sizes, values, chip) + rest(coordinates of the sizes)

The values are shares of what the chip can do, launches and the like, at most 40. The rest is linear
between the nodes of a grid. `python -m experiments.studies kernel-times` learns both and writes the
table of each kind, a CSV file beside its module: a line for each device, precision and engine.
:func:`.lookup.model_of` reads it, and finds a line for devices that nobody has measured.

To add a kind, write its module with a :func:`.kernel_model.kind_of`, its values in `values.csv` and
the axes of its grid in `grids.csv`. Then add a reader of its measured rows to
`experiments.studies.kernel_rows`, and a line to `SOURCES` of the study.

The measured kernels are those of AIConfigurator (github.com/ai-dynamo/aiconfigurator, Apache-2.0,
commit 095f58a5). Its frameworks (sglang, trtllm, vllm) are the engines.
"""
