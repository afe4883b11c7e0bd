"""What of an engine's configuration kvc works with; all else is refused by name."""

from __future__ import annotations

from typing import Any

from vllm.platforms import current_platform

from ..errors import UnsupportedError


def check_engine(config: Any) -> None:
    """Of a VllmConfig."""
    if not current_platform.is_cpu():
        raise UnsupportedError(f"in vLLM kvc works on the CPU only, got {current_platform.device_type}")
    model, cache, parallel = config.model_config, config.cache_config, config.parallel_config
    backend = getattr(config.attention_config.backend, "name", None)
    for what, found in {
        f"the attention backend {backend}": backend not in (None, "CPU_ATTN"),
        "a quantised cache": cache.cache_dtype not in ("auto", str(model.dtype).removeprefix("torch.")),
        f"weights quantised by {model.quantization}": model.quantization,
        "a sliding window": cache.sliding_window is not None,
        "speculative decoding": config.speculative_config is not None,
        "a multimodal model": model.is_multimodal_model,
        "prompt embeddings": model.enable_prompt_embeds,
        f"a model that is run for {model.runner_type}": model.runner_type != "generate",
        "LoRA": config.lora_config is not None,
        "a KV connector": config.kv_transfer_config is not None,
        "KV events": config.kv_events_config is not None and config.kv_events_config.enable_kv_cache_events,
        "KV offloading": cache.kv_offloading_size is not None,
        "fast prefill of shared caches": cache.kv_sharing_fast_prefill,
        "pipeline parallelism": parallel.pipeline_parallel_size > 1,
        "data parallelism": parallel.data_parallel_size > 1,
        "context parallelism": parallel.decode_context_parallel_size > 1 or parallel.prefill_context_parallel_size > 1,
        "more workers than KV heads": parallel.tensor_parallel_size > model.get_total_num_kv_heads(),
        "asynchronous scheduling": config.scheduler_config.async_scheduling,
        "the V2 model runner (VLLM_USE_V2_MODEL_RUNNER=0 chooses the other)": config.use_v2_model_runner,
    }.items():
        if found:
            raise UnsupportedError(f"additional_config['kvc'] must be for an engine that it can compact, got {what}")
