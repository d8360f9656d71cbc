#!/bin/bash
# A training of Llama 3 70B with Megatron-LM: simctl plan reads the arguments.
TP=8
PP=4
NUM_NODES=8

MODEL_ARGS=(
    --num-layers 80
    --hidden-size 8192
    --ffn-hidden-size 28672
    --num-attention-heads 64
    --group-query-attention
    --num-query-groups 8
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --vocab-size 128256
    --attention-dropout 0.0
    --hidden-dropout 0.0
)

torchrun --nproc_per_node 8 --nnodes $NUM_NODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    --tensor-model-parallel-size $TP \
    --sequence-parallel \
    --tp-comm-overlap \
    --pipeline-model-parallel-size $PP \
    --num-layers-per-virtual-pipeline-stage 5 \
    --micro-batch-size 1 \
    --global-batch-size 128 \
    --use-distributed-optimizer \
    --overlap-grad-reduce \
    --overlap-param-gather \
    --bf16 \
    --lr 1.5e-4 \
    --train-iters 1000 \
    --log-interval 10
