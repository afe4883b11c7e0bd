"""Tensors that say that they are on a GPU, for machines without one.

Their memory is the process's, where the library that stands in for NVIDIA's driver runs kernels, too. What a
GPU would not take is an error: tensors of both devices in one operation, NumPy's view of one, and, more
strictly than torch, an index on the CPU. Of what waits for a GPU the number is counted.
"""

import contextlib
import ctypes
from types import SimpleNamespace
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from kvc import _cuda, _library

GPU = torch.device("cuda:0")
_WAITS = {"cpu", "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "nonzero"}
_CALLS = {"kvc_layer_prepare", "kvc_layer_score", "kvc_layer_select", "kvc_compact", "kvc_layer_evict", "kvc_append",
          "kvc_attend"}  # fmt: skip


class Placed(torch.Tensor):
    """On the GPU."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class Placing(TorchFunctionMode):
    """Takes calls that make tensors, too."""

    waits = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in _WAITS and args and isinstance(args[0], Placed):
            Placing.waits += 1
        return _run(func, args, kwargs or {})


def placed(tensor):
    return tensor.as_subclass(Placed)


def place(module):
    """A part of a model to the GPU: what `to` does by `data`, which does not take a class along."""
    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            tensors.update({name: placed(one.detach()) for name, one in tensors.items() if one is not None})
    return module


def _run(func, args, kwargs):
    if func is torch.device:
        return func(*args, **kwargs)
    name = getattr(func, "__name__", "")
    if name == "__deepcopy__":
        copied = args[1][id(args[0])] = args[0].clone()
        return copied
    if name == "__get__" and isinstance(args[0], Placed):
        found = {"device": GPU, "is_cuda": True, "is_cpu": False}.get(func.__self__.__name__)
        if found is not None:
            return found
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    there = any(isinstance(one, Placed) for one in tensors)
    if there and name in ("numpy", "__array__"):
        raise TypeError("a tensor on the GPU has no NumPy's view")
    # A number is taken from the CPU.
    here = [one for one in tensors if not isinstance(one, Placed) and one.dim()]
    if there and here and name not in ("copy_", "__get__", "__set__"):
        raise RuntimeError(f"{name or func}: tensors on both devices, of shapes {[list(one.shape) for one in tensors]}")
    wanted = [kwargs["device"]] if kwargs.get("device") is not None else []
    if name == "to":
        wanted += [one.device for one in args[1:] if isinstance(one, torch.Tensor)]
        wanted += [one for one in args[1:] if isinstance(one, (str, torch.device))]
    elif name in ("cpu", "cuda"):
        wanted = [name]
    gpu = torch.device(wanted[0]).type == "cuda" if wanted else there
    moved = there != gpu and bool(tensors)

    def local(one):
        return torch.device("cpu") if isinstance(one, torch.device) or one in ("cuda", "cuda:0") else one

    with torch._C.DisableTorchFunctionSubclass():
        if name == "cuda":
            out = args[0].clone()
        else:
            plain = [local(one) if isinstance(one, (str, torch.device)) else one for one in args]
            given = {key: local(one) if key == "device" and one is not None else one for key, one in kwargs.items()}
            out = func(*plain, **given)
        if name in ("to", "cpu") and moved and out is args[0]:
            out = out.clone()
        return tree_map(lambda one: _as(one, gpu), out)


def _as(one, gpu):
    if not isinstance(one, torch.Tensor) or isinstance(one, Placed) == gpu:
        return one
    return one.as_subclass(Placed if gpu else torch.Tensor)


class _Waiting:
    """The library, but that each call is over when it returns: nobody reads memory that is not written yet. It
    waits for torch's stream alone."""

    def __init__(self, library, wait):
        self._library, self._wait = library, wait

    def __getattr__(self, name):
        function = getattr(self._library, name)
        if name not in _CALLS:
            return function

        def call(*arguments):
            function(*arguments)
            self._wait()

        return call


@contextlib.contextmanager
def gpu(capability=(9, 0)):
    """For a while there is a GPU: the driver's stand-in, which must be in LD_LIBRARY_PATH, and torch's tensors."""
    stream = ctypes.c_void_p()
    with _cuda._current(0):
        _cuda._driver().cuStreamCreate(ctypes.byref(stream), 1)

    def wait():
        with _cuda._current(0):
            _cuda._call("cuStreamSynchronize", stream)

    library = _Waiting(_library.load(), wait)
    with (
        # Of a torch with CUDA: it must not ask the stand-in for what that has not.
        mock.patch("torch.cuda.is_available", lambda: False),
        mock.patch("torch.cuda.get_device_capability", lambda device=None: capability),
        mock.patch("torch.cuda.current_stream", lambda device=None: SimpleNamespace(cuda_stream=stream.value)),
        mock.patch("kvc._library.load", lambda: library),
        Placing(),
    ):
        yield
