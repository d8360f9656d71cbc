"""Training jobs as other frameworks write them: Megatron-LM, Megatron-Bridge, NeMo, torchtitan."""
