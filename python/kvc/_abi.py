"""The C ABI of kvc/kvc.h, cache.h, attend.h and host.h, as ctypes sees it.

Declarations and nothing else, in the headers' order but for LayerArgs, which points to a
view; python/tests/core/test_abi.py parses the headers and compares every struct, enumerator
and function with what stands here.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

ABI_VERSION = 2

# kvc_status
OK = 0
BAD_ARGUMENT = -1
UNSUPPORTED = -2
EXCEEDS_LIMITS = -3
WORKSPACE_TOO_SMALL = -4
MISALIGNED = -5
ABI_MISMATCH = -6
BAD_ARTIFACT = -7
DRIVER_ERROR = -8
INTERNAL_ERROR = -9

# kvc_dtype
F32 = 0
F16 = 1
BF16 = 2

# kvc_target_kind
HOST = 0
CUDA = 1
PTX = 2

ALL_QUERIES = 2**32 - 1

PREPARED_ALIGNMENT = 16

MAX_HEAD_DIM = 256

# kvc_cache_kind
DENSE = 0
RAGGED = 1
PAGED = 2
MERGED = 3
MERGED_PAGED = 4

# Bits of kvc_plan_info.inputs.
READS_WO = 1
READS_TABLE = 2
READS_STATE = 4
READS_RAW_KEYS = 8
MERGES = 16
READS_NEW_QUERIES = 32
READS_ANGLES = 64

# Bits of the status word (kvc/artifact.h).
DATA_NAN = 1
DATA_CAPACITY = 2
DATA_TABLE = 4
DATA_CACHE = 8

# kvc_host_processor
ANY_PROCESSOR = 0
X86_64_V3 = 1
X86_64_V4 = 2


class Struct(ctypes.Structure):
    """A struct that begins with its size; fields that are not named are 0."""

    def __init__(self, **fields: object) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class Target(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("device", c_int),
        ("threads", c_uint),
        ("seed", c_uint64),
    ]


class PlanOptions(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("head_dim", c_uint32),
        ("q_heads", c_uint32),
        ("kv_heads", c_uint32),
        ("dtype", c_int),
        ("max_batch", c_uint32),
        ("max_tokens", c_uint32),
        ("lse_given", c_int),
        ("cache", c_int),
        ("into", c_int),
    ]


class PlanInfo(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("workspace_bytes", c_size_t),
        ("workspace_alignment", c_size_t),
        ("launches", c_uint32),
        ("queries", c_uint32),
        ("inputs", c_uint32),
        ("vector", c_uint32),
        ("scores_offset", c_int64),
        ("scores_heads", c_uint32),
        ("scores_by_position", c_uint32),
        ("least_queries", c_uint32),
        ("row_states", c_uint32),
        ("row_alignment", c_uint32),
        ("prepared_bytes", c_size_t),
    ]


class Rows(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("batch_stride", c_int64),
        ("head_stride", c_int64),
        ("row_stride", c_int64),
    ]


class Plane(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("batch_stride", c_int64),
        ("head_stride", c_int64),
        ("row_stride", c_int64),
        ("page_stride", c_int64),
    ]


class Numbers(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("batch_stride", c_int64),
        ("head_stride", c_int64),
    ]


class MemberTable(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rows", c_void_p),
        ("positions", c_void_p),
        ("norms", c_void_p),
        ("counts", c_void_p),
        ("capacity", c_uint32),
    ]


class CacheView(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("dtype", c_int),
        ("batch", c_uint32),
        ("kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("k", Plane),
        ("v", Plane),
        ("counts", Numbers),
        ("lengths", c_void_p),
        ("slots", c_uint32),
        ("offsets", Numbers),
        ("table", Numbers),
        ("v_table", Numbers),
        ("table_entries", c_uint32),
        ("page_rows", c_uint32),
        ("pages", c_uint32),
        ("positions", Plane),
        ("positions_by_slot", c_uint32),
        ("members", POINTER(MemberTable)),
    ]


class RowStates(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("state_stride", c_int64),
        ("batch_stride", c_int64),
        ("head_stride", c_int64),
        ("row_stride", c_int64),
        ("page_stride", c_int64),
        ("by_slot", c_uint32),
    ]


class LayerArgs(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("batch", c_uint32),
        ("tokens", c_uint32),
        ("layer", c_uint32),
        ("layers", c_uint32),
        ("lengths", c_void_p),
        ("budgets", c_void_p),
        ("k", Rows),
        ("v", Rows),
        ("q", Rows),
        ("q_rows", c_uint32),
        ("k_raw", Rows),
        ("wo", Rows),
        ("hidden", c_uint32),
        ("table", c_void_p),
        ("state", c_void_p),
        ("state_rows", c_uint32),
        ("lse", c_void_p),
        ("lse_batch_stride", c_int64),
        ("lse_head_stride", c_int64),
        ("lse_rows", c_uint32),
        ("lse_base_2", c_int),
        ("scale", c_float),
        ("indices", c_void_p),
        ("index_capacity", c_uint32),
        ("counts", c_void_p),
        ("past", c_void_p),
        ("status", c_void_p),
        ("k_out", c_void_p),
        ("v_out", c_void_p),
        ("offsets", c_void_p),
        ("member_rows", c_void_p),
        ("member_positions", c_void_p),
        ("member_norms", c_void_p),
        ("member_counts", c_void_p),
        ("member_capacity", c_uint32),
        ("out_rows", c_uint32),
        ("slack", c_uint32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("cache", ctypes.POINTER(CacheView)),
        ("positions_out", c_void_p),
        ("new_queries", c_void_p),
        ("row_states", RowStates),
        ("row_states_out", c_void_p),
        ("into", ctypes.POINTER(CacheView)),
        ("pack_to_tail", c_uint32),
        ("into_states", RowStates),
        ("freed_pages", c_void_p),
        ("rope", c_void_p),
        ("rope_positions", c_uint32),
        ("since", c_void_p),
        ("prepared", c_void_p),
        ("prepared_bytes", c_size_t),
    ]


class AppendArgs(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("target", c_int),
        ("device", c_int),
        ("stream", c_void_p),
        ("cache", POINTER(CacheView)),
        ("k", Rows),
        ("v", Rows),
        ("rows", c_uint32),
        ("status", c_void_p),
    ]


class AttendArgs(Struct):
    _fields_ = [
        ("struct_size", c_size_t),
        ("target", c_int),
        ("device", c_int),
        ("threads", c_uint),
        ("stream", c_void_p),
        ("cache", POINTER(CacheView)),
        ("q_heads", c_uint32),
        ("queries", c_uint32),
        ("q", Rows),
        ("out", Plane),
        ("out_dtype", c_int),
        ("lse", c_void_p),
        ("lse_batch_stride", c_int64),
        ("lse_head_stride", c_int64),
        ("lse_base_2", c_int),
        ("scale", c_float),
        ("rope", c_void_p),
        ("rope_positions", c_uint32),
        ("max_rows", c_uint32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("status", c_void_p),
    ]


class Status(c_int):
    """kvc_status, told from other integers: what is negative becomes an exception."""


_layer_call = (Status, [c_void_p, POINTER(LayerArgs), c_void_p])

# Result and parameters of every function.
FUNCTIONS = {
    "kvc_enable_host": (None, []),
    "kvc_abi_version": (c_uint32, []),
    "kvc_last_error": (c_size_t, [c_char_p, c_size_t]),
    "kvc_cuda_device_count": (c_int, []),
    "kvc_module_open": (Status, [c_void_p, POINTER(Target), POINTER(c_void_p)]),
    "kvc_module_load": (Status, [c_char_p, POINTER(Target), POINTER(c_void_p)]),
    "kvc_module_close": (None, [c_void_p]),
    "kvc_module_manifest": (c_char_p, [c_void_p]),
    "kvc_plan_create": (Status, [c_void_p, POINTER(PlanOptions), POINTER(c_void_p)]),
    "kvc_plan_destroy": (None, [c_void_p]),
    "kvc_plan_query": (Status, [c_void_p, POINTER(PlanInfo)]),
    "kvc_layer_prepare": _layer_call,
    "kvc_layer_score": _layer_call,
    "kvc_layer_select": _layer_call,
    "kvc_compact": _layer_call,
    "kvc_layer_evict": _layer_call,
    "kvc_append": (Status, [POINTER(AppendArgs)]),
    "kvc_attend_workspace": (Status, [POINTER(AttendArgs), POINTER(c_size_t)]),
    "kvc_attend": (Status, [POINTER(AttendArgs)]),
}
