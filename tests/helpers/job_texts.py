"""Small files of training jobs as Megatron-Bridge, Megatron-LM and torchtitan write them."""

from pathlib import Path

from experiments.frameworks.job_file import JobFile, read_job

BRIDGE = """\
_target_: megatron.bridge.training.config.ConfigContainer
checkpoint:
  save: /checkpoints
  save_interval: 500
comm_overlap:
  _target_: megatron.bridge.training.comm_overlap.CommOverlapConfig
  tp_comm_overlap: true
  overlap_grad_reduce: null
dataset:
  seq_length: 8192
  random_seed: 1234
ddp:
  grad_reduce_in_fp32: true
  overlap_grad_reduce: true
  use_distributed_optimizer: true
mixed_precision:
  _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
  bf16: true
  grad_reduce_in_fp32: false
model:
  _target_: megatron.bridge.models.llama.llama_provider.Llama3ModelProvider70B
  activation_func:
    _call_: false
    _target_: torch.nn.functional.silu
  add_bias_linear: false
  attention_backend:
    _args_: [5]
    _call_: true
    _target_: megatron.core.transformer.enums.AttnBackend
  attention_dropout: 0.0
  context_parallel_size: 2
  ffn_hidden_size: 28672
  gated_linear_unit: true
  hidden_dropout: 0.0
  hidden_size: 8192
  kv_channels: 128
  moe_router_topk: 2
  moe_z_loss_coeff: null
  normalization: RMSNorm
  num_attention_heads: 64
  num_layers: 80
  num_moe_experts: null
  num_query_groups: 8
  pipeline_model_parallel_size: 4
  position_embedding_type: rope
  seq_length: 8192
  sequence_parallel: true
  share_embeddings_and_output_weights: false
  tensor_model_parallel_size: 4
  virtual_pipeline_model_parallel_size: 5
  vocab_size: 128256
optimizer:
  lr: 0.0003
  optimizer: adam
train:
  global_batch_size: 128
  micro_batch_size: 1
  train_iters: 100
"""
ARGUMENTS = """\
#!/bin/bash
TP=4
NUM_NODES=${NUM_NODES:-4}
# --pipeline-model-parallel-size 16 is a comment
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope
    --attention-dropout 0.0 --hidden-dropout 0.0
    --swiglu --normalization RMSNorm
    --untie-embeddings-and-output-weights
    --disable-bias-linear
    --vocab-size 128256
)
options=" \\
    --tensor-model-parallel-size ${TP} \\
    --sequence-parallel \\
    --pipeline-model-parallel-size 2 \\
    --num-layers-per-virtual-pipeline-stage 8 \\
    --use-distributed-optimizer --overlap-grad-reduce"
torchrun --nproc_per_node $((4*2)) --nnodes $NUM_NODES pretrain_gpt.py \\
    ${MODEL_ARGS[@]} ${options} --bf16 \\
    --micro-batch-size 1 --global-batch-size=64 --lr 1e-4
"""
TITAN = """\
[job]
description = "Llama 3 8B"

[model]
name = "llama3"
flavor = "8B"

[optimizer]
name = "AdamW"
lr = 3e-4

[training]
local_batch_size = 2
seq_len = 4096

[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
tensor_parallel_degree = 2

[activation_checkpoint]
mode = "full"
"""
JOBS = {"bridge.yaml": BRIDGE, "run.sh": ARGUMENTS, "titan.toml": TITAN}


def job(folder: Path, name: str, text: str, stated: str = "", gpus: int | None = None) -> JobFile:
    path = folder / name
    path.write_text(text)
    return read_job(f"{path}{stated}", gpus)


def remarks(folder: Path, name: str, text: str) -> list[str]:
    return [each.partition(", ")[2] for each in job(folder, name, text).facts.remarks]
