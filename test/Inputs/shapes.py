"""Shapes that tests compile policies for: the usual one, and others for some policies each, in
turn, so that all policies together see them all."""

usual = "head_dim=128,group=4,dtype=bf16"
others = ["head_dim=128,group=4,dtype=f32", "head_dim=64,group=8,dtype=f16",
          "head_dim=80,group=7,dtype=bf16", "head_dim=256,group=2,dtype=bf16"]

# Kinds of caches of rows, for a shape's cache=, and where kept rows go.
caches = ["ragged", "paged,into=paged", "ragged,into=ragged", "paged"]


def in_turn(name, shapes):
    """Of `shapes`, the one that is the policy's turn."""
    return shapes[sum(name.encode()) % len(shapes)]

