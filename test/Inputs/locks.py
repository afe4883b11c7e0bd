"""locks.py DEPS DIR: tools/deps while another program holds a lock of the package manager,
one whose files are all in DIR. It has no packages, so that the end is always an error."""
import fcntl
import os
import subprocess
import sys
import threading
import time

deps, folder = sys.argv[1], os.path.abspath(sys.argv[2])
for name in ("lists/partial", "archives/partial", "sources", "dpkg", "log"):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
for name in ("sources.list", "dpkg/status"):
    open(f"{folder}/{name}", "w").close()
open(f"{folder}/apt.conf", "w").write(
    f'Dir::State "{folder}"; Dir::State::lists "{folder}/lists"; Dir::State::status "{folder}/dpkg/status";\n'
    f'Dir::Cache "{folder}"; Dir::Cache::archives "{folder}/archives"; Dir::Log "{folder}/log";\n'
    f'Dir::Etc::sourcelist "{folder}/sources.list"; Dir::Etc::sourceparts "{folder}/sources";\n')


def held(lock, seconds, limit):
    """The lock is held for so many seconds; what deps says in a limit."""
    with open(f"{folder}/{lock}", "a") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        threading.Timer(seconds, lambda: fcntl.lockf(file, fcntl.LOCK_UN)).start()
        start = time.monotonic()
        result = subprocess.run([deps, "no-such-package-of-kvc"], capture_output=True, text=True, timeout=60, env={
            **os.environ, "APT_CONFIG": folder + "/apt.conf", "KVC_LOCK_SECONDS": str(limit)})
        spent = time.monotonic() - start
        time.sleep(max(0, seconds - spent) + 0.1)
    return result, spent


for lock in ("lists/lock", "dpkg/lock-frontend"):
    result, spent = held(lock, 1.5, 30)
    assert spent >= 1.5 and result.returncode != 0, (lock, spent, result)
    said = f"waiting up to 30 s for another program: Could not get lock {folder}/{lock}. It is held by process {os.getpid()}"
    assert result.stdout.count(said) == 1 and result.stdout.count("waiting") == 1, (lock, result)
    # It went on to what apt-get has to say.
    assert "Unable to locate package no-such-package-of-kvc" in result.stderr, (lock, result)
    result, spent = held(lock, 3, 1)
    said = f"within 1 s. Could not get lock {folder}/{lock}"
    assert result.returncode != 0 and said in result.stderr and result.stderr.count("\n") == 1, (lock, result)
print("waited")
