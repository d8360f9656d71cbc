"""Measured steps in the form of published files."""

SINGLE = """gpus,global_batch,micro_batch,hidden,heads,layers,seq,tp,dp,pp,iteration_ms
4,4,1,256,4,4,128,2,1,2,60
2,4,1,256,4,4,128,1,2,1,40
2,8,1,256,4,4,128,1,2,1,80
"""
MULTI = """parameters_1e9,gpus,global_batch,micro_batch,hidden,heads,layers,seq,tp,dp,pp,\
iteration_ms
0.1,16,32,1,256,8,4,128,8,2,1,500
"""
SHARDED = """hardware,model,seq,gpus,gpu,micro_batch,grad_accum,global_batch,tokens_per_s_gpu,\
mfu_percent,precision,mp_mode,sharding,checkpointing,parameters
H100,125m,128,8,h100_80gb,1,2,16,10000,9,amp_bf16,DEFAULT,FULL_SHARD,yes,1
H100,125m,256,8,h100_80gb,1,1,8,20000,9,amp_bf16,DEFAULT,FULL_SHARD,no,1
A100,125m,256,8,a100_40gb,1,1,8,10000,9,bf16,PURE,FULL_SHARD,no,1
"""
