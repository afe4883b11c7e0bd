"""measured.py RESULTS... [--write[=ROOT]]: the page and the README's lines that say what ran on a GPU and how fast.

RESULTS are folders as bench/card.py leaves them, kept under bench/results/. Every number is one of theirs, beside the
estimate and the floor of docs/costs.md where that page is about this card and these shapes (8 KV heads of 4 query heads
of 128, bf16, a budget of 1024), and beside what PyTorch took in the same run. Where a step did not run, its part
says so. Prints the page; --write makes docs/measured.md and what stands between the README's marks, here or of the
project in ROOT. Standard library only.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARKS = "<!-- measured.py -->\n", "<!-- end of measured.py -->\n"
LENGTHS = (4096, 32768, 131072)  # of docs/costs.md
COSTED = {"kv_heads": 8, "q_heads": 32, "head_dim": 128, "dtype": "bf16", "budget": 1024}  # and of peers.py
# Microseconds of a layer up to which the difference of two graphs is what a launch takes.
SHORT = 1000


def read(folder, name, otherwise):
    path = folder / name
    return json.loads(path.read_text()) if path.exists() else otherwise


def us(number):
    return f"{number:.1f}" if number < 1000 else f"{number:,.0f}"


def table(heads, rows):
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads),
            *("| " + " | ".join(row) + " |" for row in rows)]


def is_costed(layer):
    return all(layer[name] == value for name, value in COSTED.items())


def number(text):
    return float(text[:-1]) * 1000 if text.endswith("k") else float(text)


class Estimates:
    """docs/costs.md, of the card that it names: of policies and lengths the estimate and the floor, of kernels at 32K the
    range; in us."""

    def __init__(self, page):
        self.layers, self.kernels = {}, {}
        self.card = re.search(r"one layer on an? (\w+)", page)[1]
        for line in page.splitlines():
            cells = [cell.strip().strip("*") for cell in line.strip()[1:-1].split("|")]
            if len(cells) < 11 or not re.fullmatch(r"[a-z0-9_]+", cells[0]):
                continue
            if re.fullmatch(r"\d+ x \d+", cells[1]):
                low, high = cells[9].split(" to ")
                self.kernels[cells[0]] = number(low), number(high)
            elif cells[1].isdigit():
                for tokens, at in zip(LENGTHS, (2, 5, 8)):
                    if at + 1 < len(cells) and cells[at]:
                        self.layers[cells[0], tokens] = number(cells[at]), number(cells[at + 1])

    def of_layer(self, layer, device):
        known = self.card in device and is_costed(layer) and layer["lse_given"]
        return self.layers.get((layer["policy"], layer["tokens"])) if known else None

    def of_kernel(self, layer, name, device):
        known = self.of_layer(layer, device) and layer["tokens"] == 32768
        return self.kernels.get(name.replace("_d128_g4_bf16", "")) if known else None


class Results:
    def __init__(self, folder, estimates):
        self.folder, self.estimates = pathlib.Path(folder), estimates
        self.device = read(self.folder, "run.json", None)
        if self.device is None:
            sys.exit(f"{folder} must have a run.json, as bench/card.py leaves it")
        self.steps = self.device["steps"]
        # Of another run on such a card, the run.json: of all checks, where this one had no time for them.
        self.checks = read(self.folder, "checks.json", None)
        self.layers = read(self.folder, "layers.json", [])
        self.attention = read(self.folder, "attention.json", [])
        self.card = read(self.folder, "card.json", [])
        self.peers = {(peer["peer"], peer["tokens"]): peer for peer in read(self.folder, "peers.json", [])}

    def name(self):
        return self.device["name"]

    def beside(self, peer, tokens, ours):
        """What PyTorch took, as it launches it and as a CUDA graph, and how many times ours the shorter one is."""
        found = self.peers.get((peer, tokens), {})
        taken, graph = found.get("us"), found.get("graph_us")
        if not isinstance(taken, dict):
            return taken or "", "", ""
        best = min(one["median"] for one in (taken, graph) if one)
        return us(taken["median"]), us(graph["median"]) if graph else "", f"{best / ours:.1f} x"

    def what_ran(self, steps):
        """A line: passed, failed, not run."""
        counts = {"passed": 0, "failed": 0, "out of time": 0, "not run": 0}
        for step in steps:
            counts[self.how(step)] += 1
        return ", ".join(f"{count} {how}" for how, count in counts.items() if count) or "nothing ran"

    @staticmethod
    def how(step):
        if step["status"] == 0:
            return "passed"
        return step["status"] if step["status"] in ("out of time", "not run") else "failed"

    def head(self):
        device = self.device
        said = [f"driver {device['driver_version']}" if "driver_version" in device else "",
                f"SM clock {device['clocks.sm']} of {device['clocks.max.sm']}" if "clocks.sm" in device else "",
                f"commit {device['commit']}", device["date"]]
        lines = [f"## {self.name()}", "", ", ".join(part for part in said if part) + f"; `{device['command']}`.",
                 f"Steps: {self.what_ran(self.steps)}."]
        for how in ("failed", "out of time", "not run"):
            named = [step["step"] for step in self.steps if self.how(step) == how]
            if named:
                lines += ["", f"{how.capitalize()}: {', '.join(named)}."]
        if self.checks:
            lines += ["", f"All checks, in a run at commit {self.checks['commit']}, {self.checks['date']}, "
                      f"`{self.checks['command']}`: {self.what_ran(self.checks['steps'])}."]
        return lines

    def layer_rows(self, tokens=None):
        for layer in self.layers:
            if tokens and layer["tokens"] != tokens:
                continue
            took = layer["graph_us"]["median"]
            known = self.estimates.of_layer(layer, self.name())
            peer = f"eager {layer['policy']}" if is_costed(layer) else None
            beside = self.beside(peer, layer["tokens"], took)
            # Packed before there were early launches: it has no such number.
            serial = layer.get("serial_graph_us")
            yield [layer["policy"], str(layer["tokens"]), us(took), us(layer["graph_us"]["p95"]),
                   us(serial["median"]) if serial else "", us(layer["launched_us"]["median"]), us(known[0]) if known else "",
                   f"{took / known[0]:.2f} x" if known else "", f"{100 * known[1] / took:.0f} %" if known else "",
                   *beside]

    def layers_part(self):
        if not self.layers:
            return ["No layer was measured."]
        return ["One layer, keys and values in memory, as a CUDA graph; the floor is that of docs/costs.md.", "",
                *table(["policy", "tokens", "us", "p95", "without early launches", "as launches", "estimate", "of the estimate",
                        "share of the floor", "eager torch", "as a graph", "torch takes"], self.layer_rows())]

    def kernels_part(self):
        rows = []
        for layer in self.layers:
            before = 0
            for launch in layer["launches"]:
                here = launch["graph_to_here_us"]["median"]
                took, before = here - before, here
                if layer["graph_us"]["median"] > SHORT:
                    took = launch["us"]["median"]
                known = self.estimates.of_kernel(layer, launch["kernel"], self.name())
                if known:
                    rows.append((took / known[1], [launch["kernel"], us(took), f"{us(known[0])} to {us(known[1])}",
                                                   f"{took / known[1]:.2f} x"]))
        rows.sort(key=lambda row: -row[0])
        if not rows:
            return []
        return ["", "Kernels at 32768 tokens: what each adds to a graph of those in front of it (in layers of more than a "
                "millisecond, whose clocks are not the same from run to run, a launch with an event behind it), those "
                "first that are farthest above their estimate:", "",
                *table(["kernel", "us", "estimate", "of its upper end"], [row for _, row in rows])]

    def attention_rows(self):
        for run in self.attention:
            took = run["graph_us"]["median"]
            plain = run["batch"] == 1 and run["skew"] == 1 and not run["page"]
            peer = {1: "scaled_dot_product_attention, one token",
                    run["rows"]: "scaled_dot_product_attention, a prompt"}.get(run["queries"] or run["rows"])
            beside = self.beside(peer, run["rows"], took) if plain else ("", "", "")
            prompt = run["queries"] in (0, run["rows"])
            yield ["a prompt" if prompt else str(run["queries"]), str(run["rows"]), f"{run['skew']} : 1",
                   str(run["page"] or ""), us(took), us(run["graph_us"]["p95"]), *beside]

    def attention_part(self):
        if not self.attention:
            return ["No attention was measured."]
        return table(["queries", "rows a head", "longest head", "pages of", "us", "p95",
                      "scaled_dot_product_attention", "as a graph", "torch takes"],
                     self.attention_rows())

    def executor_part(self):
        path = self.folder / "executor.md"
        if not path.exists():
            return ["No model was run."]
        return ["A random model of Llama-3.1-8B's shapes, a tenth of the cache kept: "
                "[executor.py](../bench/executor.py). Floors: products at 790 TFLOP/s, memory at 4.3 TB/s.", "",
                *path.read_text().rstrip().splitlines()]

    def card_part(self):
        if not self.card:
            return ["No constant was measured."]
        skip = {"device", "driver"}
        return table(["constant", "measured"],
                     [[f"`{name}`", f"{value:.4g}"] for name, value in self.card[0].items() if name not in skip])

    def notes_part(self):
        """What was found out about these results, in words: notes.md beside them."""
        path = self.folder / "notes.md"
        return ["", "### What falls short", "", *path.read_text().rstrip().splitlines()] if path.exists() else []

    def page(self):
        return [*self.head(), "", "### Layers", "", *self.layers_part(), *self.kernels_part(), "", "### Attention", "",
                *self.attention_part(), "", "### A model", "", *self.executor_part(), "", "### Constants of the card", "",
                "In the units of [the cost model](cost-model.md).", "", *self.card_part(), *self.notes_part()]

    def summary(self):
        """For the README: what ran, on what, how fast, of policies whose floor or whose torch is known."""
        layers = [row for row in self.layer_rows(32768) if row[8] or row[11]] or list(self.layer_rows())
        calls = [f"{'one token' if queries == '1' else queries} at {rows} rows a head {took} us ({times})"
                 for queries, rows, _, _, took, _, _, _, times in self.attention_rows() if times]
        beside = ["", "  `kvc_attend`, and how long PyTorch's scaled_dot_product_attention takes beside it: "
                  + ", ".join(calls) + "."] if calls else []
        checks = f"; all checks at {self.checks['commit']}, {self.what_ran(self.checks['steps'])}" if self.checks else ""
        return [f"- **Measured on {self.name()}** (commit {self.device['commit']}; {self.what_ran(self.steps)} of the "
                f"steps of `tools/gpu-check`{checks}), microseconds of one layer; [all of it](docs/measured.md):", "",
                *("  " + line for line in table(
                    ["policy", "tokens", "us", "share of the floor", "eager torch takes"],
                    [[row[0], row[1], row[2], row[8], row[11]] for row in layers])), *beside]


def main():
    folders = [word for word in sys.argv[1:] if not re.match("--write(=|$)", word)]
    to = [pathlib.Path(word.partition("=")[2] or ROOT) for word in sys.argv[1:] if word not in folders]
    if not folders or any(word.startswith("-") for word in folders):
        sys.exit(__doc__)
    estimates = Estimates((ROOT / "docs/costs.md").read_text())
    results = [Results(folder, estimates) for folder in folders]
    page = ["<!-- generated by bench/measured.py -->", "# What was measured on GPUs", "",
            "Made from the results under [bench/results](../bench/results) by `bench/measured.py`."]
    for one in results:
        page += ["", *one.page()]
    text = "\n".join(page) + "\n"
    if not to:
        return print(text, end="")
    (to[0] / "docs/measured.md").write_text(text)
    readme = (to[0] / "README.md").read_text()
    begin, end = readme.index(MARKS[0]) + len(MARKS[0]), readme.index(MARKS[1])
    lines = [line for one in results for line in one.summary()]
    (to[0] / "README.md").write_text(readme[:begin] + "\n".join(lines) + "\n" + readme[end:])


main()
