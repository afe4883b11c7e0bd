"""Kept tokens per layer and KV head, from two results of kvc-run generate."""
import json
import sys

full, policy = (json.load(open(path)) for path in sys.argv[1:3])
print(f"answers: full cache '{full['text']}', {policy['policy']} '{policy['text']}'")
print(f"cache:   {policy['cache_bytes_full']} bytes -> {policy['cache_bytes_kept']} bytes")
print("kept tokens  " + "  ".join(f"head {h}" for h in range(len(policy["kept"][0]))))
for layer, counts in enumerate(policy["kept"]):
    print(f"  layer {layer}    " + "  ".join(f"{count:6d}" for count in counts))
for name, run in (("full", full), (policy["policy"], policy)):
    seconds = run["seconds"]
    print(f"{name:>8}: prefill {seconds['prefill'] * 1e3:.0f} ms, eviction "
          f"{seconds['evict'] * 1e3:.0f} ms, decode {seconds['decode'] * 1e3:.0f} ms")
