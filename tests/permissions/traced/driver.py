"""The first process in a container: it runs commands under strace, and says what each one did.

Inside, everything is read-only but a copy of one home and an empty /tmp, there is no network, and
what a command leaves behind is killed before the next one starts.
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from select import select
from time import monotonic

from tests.permissions.traced.strace import CALLS, read_trace

SECONDS = 2  # for a command
OUTPUT = 1 << 18  # bytes that are looked at
LIMITS = {
    resource.RLIMIT_AS: 4 << 30,
    resource.RLIMIT_FSIZE: 32 << 20,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NPROC: 500,
}
STRACE = ("strace", "-f", "-y", "--seccomp-bpf", "-s", "300", "-e", f"trace={','.join(CALLS)}")
# What only strace itself has in its environment, which other processes could read.
CANARY = ("GREENROOM_CANARY", "ENVIRONMARKER")

MS_BIND = 4096
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
PR_SET_DUMPABLE, PR_CAPBSET_DROP = 4, 24
_LIBC = ctypes.CDLL(None, use_errno=True)


def main():
    """Run the commands of standard input, and print what they did."""
    if sys.argv[1:] == ["test"]:
        _seal()
        subprocess.run([*STRACE, "-o", "/dev/null", "true"], check=True)
        return
    _LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    order = json.load(sys.stdin)
    base = Path(order["base"])
    _mount(base / "home", base / "pristine", bind=True)
    writable = (base / "home", base / "log", Path("/tmp"))
    for place in writable:
        _mount("tmpfs", place)
    _seal(*writable, Path("/proc"))
    for name in os.listdir(base / "pristine"):
        _restore(base, name)
    json.dump([_trace(base, *run, order) for run in order["runs"]], sys.stdout)


def _mount(source, target, *, bind=False):
    kind, flags = (None, MS_BIND) if bind else (b"tmpfs", 0)
    options = None if bind else b"size=256m,mode=755"
    if _LIBC.mount(os.fsencode(source), os.fsencode(target), kind, flags, options):
        raise OSError(ctypes.get_errno(), "mount", str(target))


def _seal(*writable):
    """Make every mount read-only but these; mount_setattr(2) does so for all below one."""

    def set_attributes(path, add, remove, flags):
        attributes = (ctypes.c_uint64 * 4)(add, remove, 0, 0)
        size = ctypes.sizeof(attributes)
        where = (MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags)
        if _LIBC.syscall(*where, ctypes.byref(attributes), size):
            raise OSError(ctypes.get_errno(), "mount_setattr", str(path))

    set_attributes("/", MOUNT_ATTR_RDONLY, 0, AT_RECURSIVE)
    for path in writable:
        if os.path.ismount(path):
            set_attributes(path, 0, MOUNT_ATTR_RDONLY, 0)


def _restore(base, name):
    """Make what lies in the home under a name what it was."""
    old, new = base / "pristine" / name, base / "home" / name
    if new.is_dir() and not new.is_symlink():
        shutil.rmtree(new)
    else:
        new.unlink(missing_ok=True)
    if old.is_dir() and not old.is_symlink():
        shutil.copytree(old, new, symlinks=True)
    elif old.is_symlink() or old.exists():
        shutil.copy2(old, new, follow_symlinks=False)


def _limit():
    """Let a command be an ordinary user's, which can't reach the driver."""
    for what, most in LIMITS.items():
        resource.setrlimit(what, (most, most))
    for capability in range(41):
        _LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def _trace(base, words, environment, folder, order):
    log = base / "log" / "trace"
    deadline = monotonic() + SECONDS
    process = subprocess.Popen(
        [*STRACE, "-E", CANARY[0], "-e", "signal=none", "-o", str(log), "--", *words],
        cwd=folder,
        env=environment | dict([CANARY]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_limit,  # noqa: PLW1509 - there are no threads
    )
    output = _drain(process.stdout, deadline)
    try:
        process.wait(max(0, deadline - monotonic()))
        late = False
    except subprocess.TimeoutExpired:
        late = True
    _kill_all()
    process.wait()
    process.stdout.close()
    effects = read_trace(log.read_bytes().decode("utf-8", "surrogateescape"))
    is_aside = not os.listdir("/tmp")  # what a program has put there while it ran
    changed = [each for each in effects.changed if not (is_aside and " /tmp/" in each)]
    found = {
        "ran": list(effects.ran),
        "read": list(effects.read),
        "changed": changed,
        "guarded": _list_changed(base, order["guarded"]) if changed else [],
        "odd": list(effects.odd),
        "told": [each for each in (*order["canaries"], CANARY[1]) if each.encode() in output],
        "left": late and effects.ended,
    }
    if changed:
        _clean(base, folder, changed)
    return found


def _clean(base, folder, changed):
    """Make everything that may have been changed what it was."""
    home = f"{base}/home/"
    old, new = set(os.listdir(base / "pristine")), set(os.listdir(home))
    paths = [folder, *(os.path.join(folder, each.partition(" ")[2]) for each in changed)]
    named = {path.removeprefix(home).split("/")[0] for path in paths if path.startswith(home)}
    for name in (named & (old | new)) | (old ^ new):
        _restore(base, name)
    for left in Path("/tmp").iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def _drain(pipe, deadline):
    output = b""
    while (left := deadline - monotonic()) > 0 and select([pipe], [], [], left)[0]:
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            break
        output += data[: OUTPUT - len(output)]
    return output


def _kill_all():
    """Kill everything in this container but the driver, which is its first process."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _list_changed(base, names):
    """List the guarded files that differ from what they were."""
    found = set()
    for name in names:
        old, new = _contents(base / "pristine", name), _contents(base / "home", name)
        found.update(each for each in {*old, *new} if old.get(each) != new.get(each))
    return sorted(found)


def _contents(home, name):
    top = home / name
    files = [top, *top.rglob("*")] if top.is_dir() and not top.is_symlink() else [top]
    return {str(file.relative_to(home)): _describe(file) for file in files}


def _describe(file):
    if file.is_symlink():
        return os.readlink(file)
    if file.is_dir():
        return "folder"
    if file.is_file():
        return f"{file.stat().st_mode:o} {file.read_bytes()!r}"
    return "special" if file.exists() else ""


if __name__ == "__main__":
    main()
