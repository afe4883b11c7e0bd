"""Eviction inside `generate()` of an unmodified model of Hugging Face transformers.

    from kvc.transformers import KvcCache
    model.set_attn_implementation("kvc")
    cache = KvcCache(model, "snapkv", budget=1024)
    model.generate(**inputs, past_key_values=cache)

Three pieces and no hooks: a cache; an attention function, which finds the cache's layer at the
keys that the layer's `update` gave out; a mask function of the same name, without which the
attention function would get no mask. Layers with other caches attend as with "sdpa".

A prompt is held whole, chunk by chunk, until the first token that is decoded, or `finish()`:
there is no other sign that it is complete. Then each layer's policy runs once, and what it
keeps is all that is held. Later turns are appended whole.

Models are on the CPU or on CUDA GPUs; what is held of a layer is on the layer's device.
"""

from .attention import register
from .cache import KvcCache

__all__ = ["KvcCache"]

register()
