"""What vLLM calls, by the entry point, in each of its processes."""

from __future__ import annotations


def register() -> None:
    """Registers backend and cache spec, and has layers looked at as models are built. May be
    called any number of times."""
    from torch.nn.modules import module
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    from vllm.v1.kv_cache_interface import FullAttentionSpec
    from vllm.v1.kv_cache_spec_registry import KVCacheSpecRegistry

    from .blocks import KvcManager, KvcSpec
    from .layers import look_at

    global _hook
    KVCacheSpecRegistry._ensure_registered()
    KVCacheSpecRegistry.register(KvcSpec, KvcManager, uniform_type_base_spec=FullAttentionSpec)
    register_backend(AttentionBackendEnum.CPU_ATTN, "kvc.vllm.attention.KvcBackend")
    if _hook is None:
        _hook = module.register_module_module_registration_hook(look_at)


_hook: object | None = None
