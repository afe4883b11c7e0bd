"""What vLLM calls, by the entry point, in each of its processes.

With the version of vLLM that kvc is tested with, backend and cache spec are registered. With
any other nothing of vLLM's is touched, but an engine that asks for kvc is refused.
"""

from __future__ import annotations

from typing import Any

import vllm
from torch.nn.modules import module as modules

from ..errors import UnsupportedError
from .options import Options

VERSION = "0.32"
"""Of vLLM, whose inner interfaces change from version to version."""

_hook: object | None = None


def register() -> None:
    """May be called any number of times."""
    global _hook
    if _hook is not None:
        return
    look: Any = _refuse
    if vllm.__version__.split(".")[:2] == VERSION.split("."):
        look = _register()
    # Layers are looked at as models are built.
    _hook = modules.register_module_module_registration_hook(look)


def _register() -> Any:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    from vllm.v1.kv_cache_interface import FullAttentionSpec
    from vllm.v1.kv_cache_spec_registry import KVCacheSpecRegistry

    from .blocks import KvcManager, KvcSpec
    from .layers import look_at

    KVCacheSpecRegistry._ensure_registered()
    KVCacheSpecRegistry.register(KvcSpec, KvcManager, uniform_type_base_spec=FullAttentionSpec)
    register_backend(AttentionBackendEnum.CPU_ATTN, "kvc.vllm.attention.KvcBackend")
    return look_at


def _refuse(*_: object) -> None:
    from vllm.config import get_current_vllm_config_or_none

    config = get_current_vllm_config_or_none()
    if config is not None and Options.of(config) is not None:
        raise UnsupportedError(f"vLLM must be {VERSION}, which kvc is tested with, got {vllm.__version__}")
