"""outputs.py DIR MODELS FIXTURES POLICY LIBRARY LAYERS: how kvc-run and kvc-opt write
their files, to every kind of name. Device nodes are made here, never those of /dev."""
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

folder, models, fixtures, policy, library, layers = map(os.path.abspath, sys.argv[1:7])
subprocess.run(["rm", "-rf", folder], check=True)
os.makedirs(folder)
os.chdir(folder)
shape = ["--chip=none", "--shape", "head_dim=32,group=2,dtype=f32"]
apply = ["kvc-run", "apply", "--policy", library, "--budget", "40", "--target", "host"]
commands = {
    "apply": lambda out: [*apply, "--input", layers, "--output", out],
    "generate": lambda out: ["kvc-run", "generate", "--model", fixtures + "/qwen2", "--tokens", "1,2,3",
                             "--max-new-tokens", "1", "--target", "host", "--save-cache", out],
    "library": lambda out: ["kvc-opt", policy, "--emit=library", *shape, "-o", out],
    "fused": lambda out: ["kvc-opt", policy, "--emit=fused", "-o", out],
    "passes": lambda out: ["kvc-opt", policy, "-o", out],
}


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


def good(command):
    result = run(command)
    assert result.returncode == 0, (command, result)


def refused(command, text, status=1, **more):
    result = run(command, **more)
    lines = result.stderr.splitlines()
    assert result.returncode == status and len(lines) == 1, (command, result)
    assert lines[0].startswith("error: ") and text in lines[0], (command, result)


def content(path):
    return open(path, "rb").read()


def nothing_left():
    """No half files: only what this test has made."""
    found = {os.path.join(root, name) for root, _, names in os.walk(folder) for name in names}
    strange = [name for name in found if ".part" in name]
    assert not strange, strange


def node(path, major, minor):
    """Our own node of a device; False where we may not make one."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        open(path, "wb").close()
        return True
    except OSError:
        if os.path.lexists(path):
            os.remove(path)
        return False


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


# What is read is not written over, by no name that it has.
os.symlink(layers, "input")
os.symlink(library, "policy")
os.symlink(policy, "source")
for command, path in (
    (commands["apply"](layers), layers),
    (commands["apply"]("input"), "input"),
    (commands["apply"]("policy"), "policy"),
    ([*commands["apply"]("kept"), "--metrics", "input"], "input"),
    ([*commands["generate"]("policy"), "--policy", library, "--budget", "2"], "policy"),
    (commands["library"]("source"), "source"),
    (commands["fused"](policy), policy),
    (["kvc-run", "eval", "--model", fixtures + "/qwen2", "--tasks", "text:" + policy, "--results", "source"], "source"),
    (["kvc-run", "profile", "--policy", library, "--tokens", "64", "--budget", "9", "--json", "policy"], "policy"),
):
    before = [content(name) for name in (layers, library, policy)]
    refused(command, "outputs must not be files that are read, got " + path)
    assert before == [content(name) for name in (layers, library, policy)], command
assert not os.path.exists("kept")
for link in ("input", "policy", "source"):
    os.remove(link)

for name, command in commands.items():
    if name == "library":  # takes long, and goes the way of the others
        continue
    place = f"{folder}/{name}"
    os.makedirs(place)
    os.chdir(place)
    good(command("new"))
    expected = content("new")
    assert len(expected) > 100

    # A file that is there keeps its mode.
    open("old", "wb").write(b"old")
    os.chmod("old", 0o640)
    good(command("old"))
    assert content("old") == expected and stat.S_IMODE(os.stat("old").st_mode) == 0o640

    # Links stay links, those to nothing too.
    os.makedirs("deep")
    open("target", "wb").write(b"old")
    os.symlink("target", "link")
    os.symlink("deep/second", "dangling")
    os.symlink("../made", "deep/second")
    for link, target in (("link", "target"), ("dangling", "made")):
        good(command(link))
        assert os.path.islink(link) and not os.path.islink(target) and content(target) == expected, link
    assert os.path.islink("deep/second")
    os.symlink("round", "round")
    refused(command("round"), "cannot write round: Too many levels of symbolic links")

    # What is no file is written to.
    os.mkfifo("fifo")
    read = []
    reader = threading.Thread(target=lambda: read.append(content("fifo")))
    reader.start()
    good(command("fifo"))
    reader.join(60)
    assert read == [expected] and stat.S_ISFIFO(os.lstat("fifo").st_mode)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    refused(command("socket"), "cannot write socket: ")
    assert stat.S_ISSOCK(os.lstat("socket").st_mode)
    listener.close()
    if node("null", 1, 3) and node("full", 1, 7):
        os.symlink("null", "link to null")
        for path in ("null", "link to null"):
            good(command(path))
        refused(command("full"), "cannot write full: No space left on device")
        for path in ("null", "full"):
            assert stat.S_ISCHR(os.lstat(path).st_mode), path
        assert os.path.islink("link to null")
    for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        with open("log", "wb") as log:
            log.write(b"first\n")
            log.flush()
            subprocess.run(command(path), stdout=log, stderr=subprocess.DEVNULL, check=True)
        assert content("log").startswith(b"first\n" + expected), path

    # Names.
    os.makedirs("per%cent %%")
    good(command("per%cent %%/out"))
    good(command("n" * 255))
    refused(command("deep"), "cannot write deep: Is a directory")
    refused(command("missing/out"), "cannot write missing/out: No such file or directory")
    refused(command("new/out"), "cannot write new/out: Not a directory")

    # No room.
    refused(command("large"), "File too large", preexec_fn=limited)
    assert not os.path.exists("large")
    nothing_left()

# No room in a folder, where we may mount one.
os.chdir(folder)
os.makedirs("small")
script = 'mount -t tmpfs -o size=8k none small && "$@"; code=$?; ls -A small; exit $code'
for name in ("library", "apply"):
    result = run(["unshare", "-m", "sh", "-c", script, "sh", *commands[name]("small/out")])
    if "unshare" not in result.stderr and "mount" not in result.stderr:
        assert result.returncode == 1 and result.stdout == "", result
        assert result.stderr == "error: cannot write small/out: No space left on device\n", result

# A folder for temporary files that is none, or has a name that LLVM would fill in.
os.makedirs("tmp%%")
for temporary in ("/nonexistent", folder + "/tmp%%"):
    result = run(commands["library"]("out.so"), env={**os.environ, "TMPDIR": temporary})
    assert result.returncode == 0, result
nothing_left()

os.symlink("library", "link to library")
good(commands["library"]("link to library"))
assert os.path.islink("link to library") and content("library")[:4] == b"\x7fELF"
if node("null", 1, 3):
    good(commands["library"]("null"))
    assert stat.S_ISCHR(os.lstat("null").st_mode)

# A command that fails leaves a link, and what is at its end.
open("target", "wb").write(b"old")
os.symlink("target", "link")
open("bad.mlir", "w").write("kvc.policy @bad {")
for more in ([], ["--emit=fused"]):
    result = run(["kvc-opt", "bad.mlir", "-o", "link", *more])
    assert result.returncode == 1 and os.path.islink("link") and content("target") == b"old", result

# One file under two names; nothing is computed first.
two = [*apply, "--input", layers, "--input", layers]
refused([*two, "--output", "twice", "--output", "./twice"], "outputs must be different files, got twice and ./twice")
refused([*two, "--output", "target", "--output", "link"], "outputs must be different files, got target and link")
refused([*apply, "--input", layers, "--output", "twice", "--metrics", "twice"], "outputs must be different files")
refused([*commands["generate"]("twice"), "--json", "twice"], "outputs must be different files")
assert not os.path.exists("twice") and content("target") == b"old"

# A signal in the middle: the first file is written, the second waits for a reader.
os.mkfifo("fifo")
for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    process = subprocess.Popen([*two, "--output", "stopped", "--output", "fifo"], stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    half = []
    while not half:
        assert process.poll() is None
        half = [name for name in os.listdir() if ".part" in name and os.path.getsize(name) > 100]
        time.sleep(0.01)
    time.sleep(0.1)
    process.send_signal(sent)
    assert process.wait(60) == -sent
    nothing_left()
    assert not os.path.exists("stopped")

# Standard output.
said = "cannot write standard output: No space left on device"
tasks = ["kvc-run", "eval", "--model", models + "/needle", "--tasks", models + "/tasks/256.jsonl", "--limit", "1",
         "--target", "host", "--results", "results.json"]
for command in (["kvc-run", "--help"], ["kvc-run", "apply", "--help"], ["kvc-opt", policy],
                ["kvc-opt", policy, "--emit=ptx", *shape[1:]], tasks,
                ["kvc-run", "generate", "--model", models + "/needle", "--prompt", "a", "--max-new-tokens", "1"]):
    for closed in (False, True):
        out = open("/dev/full", "wb")
        result = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60,
                                preexec_fn=(lambda: os.close(1)) if closed else None)
        text = said.replace("No space left on device", "Bad file descriptor") if closed else said
        assert result.returncode == 1 and result.stderr == f"error: {text}\n", (command, result)
with open("/dev/full", "wb") as out:
    result = subprocess.run(["kvc-opt", "--help"], stdout=out, stderr=subprocess.PIPE, text=True)
assert result.returncode == 1 and result.stderr.startswith("error: IO failure on output stream"), result
print("outputs written")
