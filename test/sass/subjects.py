"""What is linted: every shipped policy, some with options, and the executor's kernels."""
import pathlib
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/Inputs"))
import shapes

EXECUTOR = "executor"
# Subjects that are a policy with options.
OPTIONS = {"criticalkv-pruned": ("criticalkv", ["--prune-norms"])}


@dataclass(frozen=True)
class Subject:
    name: str
    policy: pathlib.Path
    options: tuple = ()

    @property
    def shapes(self):
        """The usual shape, by which the goals were set, and one in turn."""
        return [shapes.usual, shapes.in_turn(self.policy.stem, shapes.others)]


def all_subjects():
    found = {path.stem: Subject(path.stem, path)
             for path in sorted((ROOT / "policies").glob("*.mlir"))}
    for name, (policy, options) in OPTIONS.items():
        found[name] = Subject(name, ROOT / f"policies/{policy}.mlir", tuple(options))
    found[EXECUTOR] = Subject(EXECUTOR, None)
    return dict(sorted(found.items()))
