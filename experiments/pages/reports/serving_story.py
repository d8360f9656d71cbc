"""The answer of `simctl serve`: how fast a model is served, and what a token's time goes to."""

from __future__ import annotations

from experiments.answer_blocks import Block, Record, Story, shares, table
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.templates import headed
from topologies.units import format_bytes, format_seconds

FULL = (
    "Not all sequences fit into the memory for the KV cache: the others wait, which TTFT does not "
    "have. Take fewer sequences, more GPUs or fewer bits."
)
PREFILLING = (
    "Prefills take more than half of the time: more sequences hardly give more tokens, and the "
    "times are outside of what was learnt."
)
LIMITS = {
    "memory": "the bandwidth of memory",
    "links": "the links",
    "launches": "the host",
    "arithmetic": "arithmetic",
}
UNCHECKED = (
    "No published point has a pipeline, or says that tokens were drafted: nobody checked this."
)
BUSY = (
    "Workers prefill nearly all of the time: prompts wait, and more sequences only wait longer. "
    "Take more workers that prefill."
)
WORKERS = (
    "The first token waits in a queue, so its time depends much on how busy workers are. Points "
    "with such workers taught simctl its interval alone: see the page on serving for the errors."
)
LEFT_OUT = (
    "Engines differ by version and settings: chunks of prefills, CUDA graphs, kernels. --measured "
    "takes points of yours."
)


def story(result: Result) -> Story:
    """Operating points, or ways to serve."""
    report = result.report
    rows = report["points"]
    best = rows[0] if report["auto"] else rows[-1]
    case = (
        f"{report['model']} in {report['precision']} by {report['engine']} on {report['machine']}, "
        f"{report['isl']} tokens in and {report['osl']} out"
    )
    sequences = counted(round(best["concurrency"]), "sequence")
    plan = f"{best['plan']} behind {best['prefill']}" if best["prefill"] else best["plan"]
    where = f"{plan} with {sequences}"
    summary = [
        f"How fast is {case} served?",
        f"{where}: the first token after {format_seconds(best['ttft_s'])}, then one each "
        f"{format_seconds(best['tpot_s'])}, {best['tokens_per_s_gpu']:.0f} tokens/s a GPU.",
        f"Most of a token's time goes to what {LIMITS[best['limit']]} limits.",
    ]
    interval = f"{report['level']:.0%}"
    columns = {
        **(headed("plan", "instances") if report["auto"] else {}),
        "in flight": "{concurrency:.0f}",
        "TTFT": "ttft_s",
        interval: "{ttft_low_s} - {ttft_high_s}",
        "TPOT": "tpot_s",
        f"{interval} ": "{tpot_low_s} - {tpot_high_s}",
        "tokens/s": "{tokens_per_s:,.0f}",
        f"tokens/s {interval}": "{tokens_per_s_low:,.0f} - {tokens_per_s_high:,.0f}",
        "a GPU": "{tokens_per_s_gpu:,.0f}",
        f"a GPU {interval}": "{tokens_per_s_gpu_low:,.0f} - {tokens_per_s_gpu_high:,.0f}",
        **({"less": "{less:.0%}"} if report["auto"] else {}),
        "a user": "{tokens_per_s_user:.1f}",
        "fit": "{fits:,.0f}",
        "limit": "{limit}",
        **({"busy": "{busy:.0%}"} if report["workers"] else {}),
    }
    note = (
        f"TTFT: the time until the first token. TPOT: that of each further one. {interval}: of "
        "engines and models. fit: sequences whose KV caches fit. limit: what most of a token's "
        "time is."
        + (" less: than the best way gives." if report["auto"] else "")
        + (" busy: the time in which workers prefill." if report["workers"] else "")
    )
    title = "Ways to serve, the most tokens a GPU first" if report["auto"] else "Operating points"
    blocks: list[Block] = [
        table(
            title,
            rows,
            columns,
            note=note,
            rare=("instances", f"tokens/s {interval}", "fit", "tokens/s"),
        ),
        *(
            _shares(f"Where the time of {what} goes: {where}", best, prefix)
            for what, prefix in (("a token", "token_"), ("a prefill's kernels", "prefill_"))
        ),
        table(
            "Memory of a GPU",
            [
                {"what": "weights", "size": format_bytes(best["weights_B"])},
                {"what": "KV cache", "size": format_bytes(best["kv_cache_B"])},
            ],
            {"": "what", "bytes": "size"},
        ),
    ]
    if report["workers"]:
        summary.append(
            "KV caches of a prompt reach a worker that decodes in "
            f"{format_seconds(best['kv_cache_sent_s'])}."
        )
    remarks = {"full": FULL, "prefilling": BUSY if report["workers"] else PREFILLING}
    left = [text for key, text in remarks.items() if any(row[key] for row in rows)]
    left += [UNCHECKED] if report["unchecked"] else []
    left += [WORKERS] if report["workers"] else []
    return Story(f"Serving {case}", summary, blocks, [*left, LEFT_OUT])


def _shares(title: str, row: Record, prefix: str) -> Block:
    """The parts whose columns start with `prefix`."""
    parts = {
        _words(name.removeprefix(prefix).removesuffix("_s")): seconds
        for name, seconds in row.items()
        if name.startswith(prefix) and seconds
    }
    return shares(title, parts, sum(parts.values()), terms=())


def _words(name: str) -> str:
    return name.replace("_", " ").replace("kv", "KV").replace("mlps", "MLPs")
