"""Small files of training jobs as Megatron-Bridge, Megatron-LM and torchtitan write them, and
what simctl makes of them."""

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
EXAMPLES = Path(__file__).parents[2] / "examples"
ARGUMENTS = (EXAMPLES / "llama3_70b_megatron.sh").read_text()
TITAN = (EXAMPLES / "llama3_8b_torchtitan.toml").read_text()
JOBS = {"bridge.yaml": BRIDGE, "run.sh": ARGUMENTS, "titan.toml": TITAN}


def job(folder: Path, name: str, text: str, stated: str = "", gpus: int | None = None) -> JobFile:
    path = folder / name
    path.write_text(text)
    return read_job(f"{path}{stated}", gpus)


def remarks(folder: Path, name: str, text: str) -> list[str]:
    return [each.partition(", ")[2] for each in job(folder, name, text).facts.remarks]
