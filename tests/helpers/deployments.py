"""Deployments that the tests share."""

from typing import Any

from experiments.models.model_catalogue import find_transformer
from experiments.serving.deployment import Cut, Deployment, parse_cut


def deploy(cut: str = "tp=8", model: str = "llama3_70b", **about: Any) -> Deployment:
    """A deployment of a model: by default Llama 3 70B in 8 bits on H200 under vLLM."""
    known = {"device": "h200", "engine": "vllm", "precision": "fp8"} | about
    cuts = parse_cut(cut) if cut else Cut()
    return Deployment(model, find_transformer(model).shape, cut=cuts, **known)
