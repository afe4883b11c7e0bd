"""Tests of kvc.vllm, with vLLM for the CPU."""
