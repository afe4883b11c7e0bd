"""totals.py FILE [per-layer]: rows kept in all layers, or layer by layer."""
import struct
import sys

from layers import load

tensors = load(sys.argv[1])
counts = [struct.unpack(f"<{shape[0]}i", raw) for name, (_, shape, raw) in
          sorted(tensors.items(), key=lambda item: int(item[0].split(".")[1]))
          if name.endswith(".counts") and "members" not in name]
print("per layer", *(sum(layer) for layer in counts))
print("total", sum(sum(layer) for layer in counts))
