"""wrong_fields.py RESULTS: kvc-run report on copies of a results file, in each of which
one field is of another type, or gone: a line that names file and field, or a page."""
import copy
import json
import subprocess
import sys

path = sys.argv[1]
good = json.load(open(path))
bad, page = path + ".bad.json", path + ".bad.html"
# What the page does not show may be anything.
unread = {"samples", "agnostic", "aware", "details", "length", "limit", "prompts", "seed", "table", "target", "tasks",
          "dtype", "library", "params", "policy", "chunk", "evict_between", "rerank", "every", "cache_bytes_peak"}
refused = 0
rules = set()


def report(results, field):
    global refused
    json.dump(results, open(bad, "w"))
    result = subprocess.run(["kvc-run", "report", bad, "-o", page], capture_output=True, text=True, timeout=60)
    if result.returncode == 0:
        return False
    lines = result.stderr.splitlines()
    assert result.returncode == 1 and len(lines) == 1 and lines[0].startswith(f"error: {bad}: "), result
    assert field is None or f" {field} " in lines[0], (field, result)
    refused += 1
    rules.update(rule for rule in ("must be a number or null, got", "must be a list, got") if rule in lines[0])
    return True


def name(keys):
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)[1:]


def walk(value, keys):
    if keys:
        for wrong in (value if keys == () else 7 if isinstance(value, str) else "seven", True, [[]], {"a": 1}):
            results = copy.deepcopy(good)
            at = results
            for key in keys[:-1]:
                at = at[key]
            at[keys[-1]] = wrong
            same = isinstance(wrong, list) and isinstance(value, list) or isinstance(wrong, dict) and isinstance(value, dict)
            assert report(results, None if same else name(keys)) or same, (keys, wrong)
        if isinstance(keys[-1], str):
            results = copy.deepcopy(good)
            at = results
            for key in keys[:-1]:
                at = at[key]
            del at[keys[-1]]
            assert report(results, None if keys == ("format",) else name(keys)), keys
    children = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, child in children:
        # A policy's own name is read, what else is known of it is not.
        if key not in unread or (key == "policy" and keys[:1] != ("policies",)):
            walk(child, (*keys, key))


walk(good, ())
for field, value in (("budgets", ["5%"]), ("model", dict(good["model"], layers=7))):
    json.dump(dict(good, **{field: value}), open(bad, "w"))
    result = subprocess.run(["kvc-run", "report", path, bad, "-o", page], capture_output=True, text=True)
    assert result.returncode == 1 and result.stderr.startswith(
        f"error: {bad}: {field} must be that of the first file, got ") and result.stderr.count("\n") == 1, result
for text in ("", "[]", "{}", "null", "{", "7", '"a"'):
    open(bad, "w").write(text)
    result = subprocess.run(["kvc-run", "report", bad, "-o", page], capture_output=True, text=True)
    assert result.returncode == 1 and result.stderr == f"error: {bad}: must be a results file of kvc-run eval\n", result
assert len(rules) == 2, rules
print(f"{refused} refused")
