"""Tables of measured kernels with a row each, as AIConfigurator has them, and of measured steps, in
the form of published files."""

from pathlib import Path

ATTENTION = (
    "machine,framework,version,kernel,attn_dtype,kv_dtype,batch,q_len,past_len,heads,kv_heads,"
    "head_dim,window,time_us\n"
)
EXCHANGES = (
    "machine,library,version,phase,wire_dtype,ranks,nodes,hidden,experts,topk,tokens_per_rank,sms,"
    "time_us,notify_us,bandwidth_GBps,suspect\n"
)
CASTS = "op,machine,framework,version,kernel,precision,m,k,time_us\n"
EXPERTS = (
    "machine,framework,version,kernel,precision,tokens,hidden,inter,topk,experts,tp,ep,"
    "distribution,time_us\n"
)
COLLECTIVES = "machine,library,collective,dtype,ranks,size_bytes,time_us,suspect\n"
DECODES = "machine,framework,kv_dtype,batch,past_len,heads,kv_heads,head_dim,window,time_us\n"
LATENT = "op,machine,framework,kv_dtype,heads,batch,past_len,time_us\n"
ALL_REDUCES = "machine,framework,mode,ranks,size_bytes,time_us\n"
ROWS = {
    "moe.csv": (
        EXPERTS
        + "h100_sxm,trtllm,1.3.0rc10,moe_torch_flow_cutlass,bfloat16,4096,2048,768,8,128,1,1,"
        "balanced,900\n"
        + "h100_sxm,sglang,0.5.14,sglang_fused_moe_triton,w4a16_mxfp4,4096,2880,2880,4,32,1,1,"
        "balanced,2000\n"
    ),
    "attention_context.csv": (
        ATTENTION + "h100_sxm,vllm,0.19.0,fa,bfloat16,bfloat16,4,4096,0,32,8,128,0,870\n"
    ),
    "all_to_all_ep.csv": (
        EXCHANGES
        + "h100_sxm,deepep_normal,0.5.12,dispatch,fp8,8,1,7168,256,8,4096,20,500,,,\n"
        + "h100_sxm,deepep_low_latency,0.5.12,combine,bfloat16,8,1,7168,256,8,128,,67,,,\n"
    ),
    "nccl.csv": (
        COLLECTIVES
        + "h100_sxm,nccl,all_gather,float16,2,67108864,158,\n"
        + "h100_sxm,nccl,all_gather,float16,2,512,7,\n"
        + "h100_sxm,nccl,all_gather,int8,2,67108864,1,\n"
        + "h100_sxm,oneccl,all_gather,float16,2,67108864,1,\n"
        + "h100_sxm,nccl,all_gather,float16,2,67108864,1,odd\n"
        + "l40s,nccl,all_gather,float16,2,67108864,1,\n"
    ),
    "custom_all_reduce.csv": (
        ALL_REDUCES
        + "h100_sxm,vllm,graph,8,65536,6.3\n"
        + "h100_sxm,vllm,eager,8,65536,50\n"
        + "h100_sxm,vllm,graph,8,256,4\n"
        + "l40s,vllm,graph,8,65536,30\n"
    ),
    "attention_generation.csv": (
        DECODES
        + "h100_sxm,vllm,bfloat16,8,4095,32,8,128,0,50\n"
        + "h100_sxm,vllm,bfloat16,8,4095,32,8,128,128,10\n"
        + "a100_sxm,vllm,fp8,8,4095,32,8,128,0,50\n"
    ),
    "mla_kernel.csv": (
        LATENT
        + "generation,h100_sxm,sglang,fp8,128,8,1023,30\n"
        + "context,h100_sxm,sglang,fp8,128,8,0,99\n"
    ),
    "quantize.csv": CASTS + "scale_matrix,h100_sxm,trtllm,1.3.0rc10,torch_ops,fp8,8192,4096,35\n",
}


def write_tables(folder: Path) -> None:
    """Write the tables of kernels that are no products."""
    for name, text in ROWS.items():
        (folder / name).write_text(text)


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
