"""run_blocks.py PAGE SOURCE WORK [NEED...]: runs a page. Blocks ```mlir file=NAME are written
to NAME, every line of a ```sh block is run; other blocks are shown only. A block ```sh NEED
is run where its needs are named."""
import os
import pathlib
import re
import subprocess
import sys

page, source, work = map(pathlib.Path, sys.argv[1:4])
here = set(sys.argv[4:])
work.mkdir(parents=True, exist_ok=True)
environment = dict(os.environ, MODELS=str(source / "models"))
ran = 0
for head, body in re.findall(r"^```(\S.*?)\n(.*?)^```", page.read_text(), re.M | re.S):
    kind, *attributes = head.split()
    for attribute in attributes:
        if attribute.startswith("file="):
            (work / attribute[5:]).write_text(body)
    needs = {attribute for attribute in attributes if "=" not in attribute}
    if kind == "sh" and needs <= here:
        result = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=work,
                                env=environment, capture_output=True, text=True)
        ran += 1
        if result.returncode:
            sys.exit(f"{page.name}: exit {result.returncode} of\n{body}{result.stderr}")
sys.exit(None if ran else f"{page.name}: no block to run")
