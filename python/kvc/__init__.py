"""kvc: KV-cache eviction policies, compiled and run.

    policy = kvc.compile("snapkv", head_dim=64, group=4, dtype="f32")
    plan = policy.plan(kv_heads=2, max_tokens=4096)
    kept = plan.evict(q, k, v, budget=512)

Tensors are torch's, NumPy's, or any that speak DLPack, on the CPU or a GPU. `import kvc.torch` adds
torch.ops.kvc.
"""

from ._version import __version__
from .attention import append, attend
from .budget import Budget
from .device_array import DeviceArray
from .errors import (
    AlignmentError,
    ArgumentError,
    ArtifactError,
    CompileError,
    DataWarning,
    DriverError,
    Error,
    InternalError,
    LimitError,
    NotFoundError,
    UnsupportedError,
    VersionError,
)
from .kept import Head, Kept, Members
from .manifest import Manifest, Variant
from .plan import Plan
from .policy import Policy, compile, load, policies
from .view import CacheView

__all__ = [
    "AlignmentError",
    "ArgumentError",
    "ArtifactError",
    "Budget",
    "CacheView",
    "CompileError",
    "DataWarning",
    "DeviceArray",
    "DriverError",
    "Error",
    "Head",
    "InternalError",
    "Kept",
    "LimitError",
    "Manifest",
    "Members",
    "NotFoundError",
    "Plan",
    "Policy",
    "UnsupportedError",
    "Variant",
    "VersionError",
    "__version__",
    "append",
    "attend",
    "compile",
    "load",
    "policies",
]
