"""measured.py SOURCE FOLDER: bench/measured.py on results whose every number is known, and on what is missing or wrong."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

source, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
results = work / "results"
results.mkdir(parents=True)
(work / "docs").mkdir()
shutil.copy(source / "README.md", work)
CARD = "NVIDIA H200"


def put(name, value):
    (results / name).write_text(json.dumps(value))


def run(*arguments, folder=results):
    return subprocess.run([sys.executable, source / "bench/measured.py", folder, *arguments], capture_output=True,
                          text=True)


def layer(policy, tokens, took, **others):
    def us(number):
        return {"median": number, "p95": number + 1}
    return {"policy": policy, "tokens": tokens, "budget": 1024, "kv_heads": 8, "q_heads": 32, "head_dim": 128,
            "dtype": "bf16", "lse_given": True, "graph_us": us(took), "launched_us": us(2 * took),
            "launches": [{"kernel": f"{policy}_{kernel}_d128_g4_bf16", "us": us(7), "graph_to_here_us": us(here)}
                         for kernel, here in (("spans1", took / 4), ("spans2", took * 3 / 4))], **others}


def row(page, *cells):
    found = [line for line in page.splitlines() if line.startswith("| " + " | ".join(cells) + " |")]
    assert len(found) == 1, (cells, page)
    return [cell.strip() for cell in found[0].strip("|").split("|")]


done = run()
assert done.returncode == 1 and "must have a run.json" in done.stderr, done
device = {"name": CARD, "driver_version": "570", "clocks.sm": "1 MHz", "clocks.max.sm": "2 MHz", "commit": "abc",
          "command": "card.py out", "date": "2026-01-01 00:00", "steps": []}
put("run.json", device)
page = run().stdout
assert "No layer was measured." in page and "No attention was measured." in page and "nothing ran" in page, page

costs = (source / "docs/costs.md").read_text()
estimate, floor = re.search(r"^\| snapkv \|(?:[^|]*\|){4} \*\*([\d.]+)\*\* \| ([\d.]+) \|", costs, re.M).groups()
low, high = re.search(r"^\| snapkv_spans2 \|.*\| ([\d.]+) to ([\d.]+) \|", costs, re.M).groups()
took = 2 * float(estimate)
layers = [layer("snapkv", 32768, took), layer("snapkv", 32768, took, budget=99), layer("adakv", 4096, 5000, serial_graph_us={"median": 6000, "p95": 6001})]
put("layers.json", layers)
device["steps"] = [{"step": "one", "status": 0, "seconds": 1}, {"step": "two", "status": 9, "seconds": 1},
                   {"step": "three", "status": "out of time", "seconds": 1}, {"step": "four", "status": "not run"}]
put("run.json", device)
put("peers.json", [{"peer": "eager snapkv", "tokens": 32768, "us": {"median": 3 * took, "p95": 1},
                    "graph_us": {"median": 2 * took, "p95": 1}},
                   {"peer": "eager adakv", "tokens": 4096, "us": "out of memory"},
                   {"peer": "scaled_dot_product_attention, a prompt", "tokens": 4096, "us": {"median": 50, "p95": 1}}])
put("attention.json", [{"batch": 1, "queries": 0, "rows": 4096, "skew": 1, "page": 0,
                        "graph_us": {"median": 100, "p95": 101}},
                       {"batch": 1, "queries": 1, "rows": 4096, "skew": 8, "page": 0,
                        "graph_us": {"median": 10, "p95": 11}}])
(results / "executor.md").write_text("4 layers\n| tokens | prefill |\n")
put("card.json", [{"device": CARD, "driver": 1, "copy_tb_s": 2.5}])
page = run().stdout
assert "1 passed, 1 failed, 1 out of time, 1 not run" in page and "Failed: two." in page, page
assert "All checks" not in page
put("checks.json", {**device, "commit": "def", "steps": device["steps"][:1] * 7})
assert "All checks, in a run at commit def, 2026-01-01 00:00, `card.py out`: 7 passed.\n" in run().stdout
known, other = [line for line in page.splitlines() if line.startswith("| snapkv | 32768 |")]
cells = [cell.strip() for cell in known.strip("|").split("|")]
assert cells[4:] == ["", f"{2 * took:,.1f}", estimate, "2.00 x", f"{100 * float(floor) / took:.0f} %", f"{3 * took:.1f}", f"{2 * took:.1f}", "2.0 x"], cells
assert other.endswith(" |  |  |  |  |  |  |"), other  # of another budget nothing was estimated, nor asked of PyTorch
assert row(page, "adakv", "4096")[2:6] == ["5,000", "5,001", "6,000", "10,000"] and "out of memory" in page
assert row(page, "snapkv_spans2_d128_g4_bf16")[2:] == [f"{low} to {high}", f"{took / 2 / float(high):.2f} x"]
put("layers.json", [layer("snapkv", 32768, 4000)])
assert row(run().stdout, "snapkv_spans2_d128_g4_bf16")[1] == "7.0"  # not the difference of two long graphs
put("layers.json", layers)
assert row(page, "a prompt", "4096")[6:] == ["50.0", "", "0.5 x"]
assert row(page, "1", "4096", "8 : 1")[6:] == ["", "", ""]  # PyTorch was not asked for that
assert "What falls short" not in page
(results / "notes.md").write_text("Why.\n")
page = run().stdout
assert page.endswith("### What falls short\n\nWhy.\n")
assert "| `copy_tb_s` | 2.5 |" in page and "\n| tokens | prefill |\n" in page

done = run(f"--write={work}")
assert done.returncode == 0 and (work / "docs/measured.md").read_text() == page, done
readme = (work / "README.md").read_text()
assert f"**Measured on {CARD}**" in readme and "No PTX of this project" not in readme
assert f"\n  | snapkv | 32768 | {took:.1f} | {100 * float(floor) / took:.0f} % | 2.0 x |\n" in readme, readme
assert run(f"--write={work}").returncode == 0 and (work / "README.md").read_text() == readme  # once more, the same
put("run.json", {**device, "name": "NVIDIA A100-SXM4-80GB"})
assert estimate + " | 2.00 x" not in run().stdout  # docs/costs.md is about another card
assert run("--wrong").returncode == 1
print("measured as it should be")
