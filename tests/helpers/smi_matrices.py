"""Matrices of nvidia-smi topo -m, written from their words."""

from refusals import refusal
from topologies.readers.nvidia_smi import read_matrix

PAIR = "\tGPU0\tGPU1\tmlx5_0\nGPU0\t X \tPIX\tPXB\nGPU1\tPIX\t X \tPXB\nmlx5_0\tPXB\tPXB\t X \n"


def refused(text: str, **kinds: str) -> str:
    return refusal(read_matrix, text, "topo.txt", **kinds)


def rendered(labels: list[str], words: list[list[str]], separator: str = "\t") -> str:
    lines = [["", *labels], *([label, *row] for label, row in zip(labels, words, strict=True))]
    return "\n".join(separator.join(line) for line in lines) + "\n"
