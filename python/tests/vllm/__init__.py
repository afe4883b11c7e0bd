"""Tests of kvc.vllm, with vLLM for the CPU."""

import os

# Before torch and vLLM are imported, by whichever test. The scheduler in this process, where it
# can be looked at; one thread, as those that share a core wait for each other.
os.environ.update(
    OMP_NUM_THREADS="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_LOGGING_LEVEL="ERROR",
    VLLM_NO_USAGE_STATS="1",
    VLLM_PLUGINS="kvc",
    HF_HUB_OFFLINE="1",
)
