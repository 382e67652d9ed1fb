"""Samplers: policy and prompts in, answers with the record of how they were denoised out."""
