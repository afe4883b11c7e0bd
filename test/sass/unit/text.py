"""Small programs in nvdisasm's words, written for these tests."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import disassembly
from checks import Kernel
from flow import Flow


def listing(body, name="kernel"):
    """Addresses are put before instructions, 16 bytes each; a line that ends in : is a label."""
    lines, at = [f".text.{name}:", f"{name}:"], 0
    for line in filter(None, map(str.strip, body.splitlines())):
        if line.endswith(":"):
            lines.append(line)
        else:
            lines.append(f"        /*{at:04x}*/                   {line} ;")
            at += 16
    return "\n".join(lines) + "\n"


def function(body):
    return disassembly.read(listing(body))["kernel"]


def kernel(body, threads=128, blocks=4):
    return Kernel("kernel", Flow(function(body)), threads, blocks)


def loop(body):
    """A kernel that is one loop."""
    return kernel(f"""
    MOV R1, c[0x0][0x28]
    .L_x_0:
    {body}
    @P0 BRA `(.L_x_0)
    EXIT""")
