"""A PostgreSQL server of the tests' own: in memory, over a socket, gone with the run."""

import contextlib
import fcntl
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import threading
from glob import glob
from pathlib import Path

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "max_wal_size": "64MB",
    "autovacuum": "off",
    "log_min_messages": "warning",
    "lc_messages": "C",
    # No more processes than are needed.
    "max_parallel_workers_per_gather": "0",
    "max_logical_replication_workers": "0",
}


PASSWORD = "s3cr3t-of-the-tests"
"""In each address, so that what shows one can be found, though only `ASKED` are asked for it."""

ASKED = "asked"
"""The role whose members are asked for their password."""


def programs():
    """Return the folder of the newest server's programs, or None."""
    found = glob("/usr/lib/postgresql/*/bin/postgres")
    newest = max(found, key=lambda path: int(path.split("/")[-3]), default=shutil.which("postgres"))
    return newest and os.path.dirname(newest)


class PostgresServer:
    """A server in a folder of its own; it may be killed and started again."""

    def __init__(self, template):
        """Make it as a copy of the template, a folder; the first one makes that."""
        # Flushed to memory: what a loss of power takes is not tested here.
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir=_fast_folder()))
        self.account = _unprivileged()
        if self.account:
            shutil.chown(self.folder, *self.account)
        self._process = None
        settings = [
            argument for name, value in SETTINGS.items() for argument in ("-c", f"{name}={value}")
        ]
        self._command = [f"{programs()}/postgres", "-D", f"{self.folder}/data", *settings]
        self._command += ["-k", str(self.folder)]
        with open(f"{template}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # others wait for the one that makes it
            if not template.exists():
                self._make(template)
        self._copy(template)
        self.start()

    @property
    def dsn(self):
        return f"host={self.folder} user=tests dbname=postgres password={PASSWORD}"

    def start(self):
        """Start it, and wait until it takes connections; it ends with the thread that calls this.

        So that is the main thread, never one of trio's, which end when they were idle for long.
        """
        assert threading.current_thread() is threading.main_thread()
        self._process = subprocess.Popen(
            [*_dies_with_us(), *self._command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            **self._identity(),
        )
        is_ready = threading.Event()
        keeping = (self._process.stderr, self.folder / "log", is_ready)
        threading.Thread(target=_keep_log, args=keeping, daemon=True).start()
        assert is_ready.wait(60), (self.folder / "log").read_text()
        assert self._process.poll() is None, (self.folder / "log").read_text()

    def kill(self):
        """Kill it, with the processes that hold its memory, as when the machine loses power."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        pids = [int(pid) for pid in children.read_text().split()]
        with contextlib.ExitStack() as ends:
            seen = []
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    seen.append(os.pidfd_open(pid))
                    ends.callback(os.close, seen[-1])
            for pid in (self._process.pid, *pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            for each in seen:  # a start fails until they are gone
                assert select.select([each], [], [], 60)[0]

    def stop(self):
        """Stop it, and remove its folder."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        shutil.rmtree(self.folder)

    def _make(self, template):
        """Let PostgreSQL make the files of a server, which only its own user can do."""
        data = self.folder / "data"
        initdb = [f"{programs()}/initdb", "-D", data, "-A", "trust", "-U", "tests", "-E", "UTF8"]
        command = [*initdb, "--no-locale", "--no-sync", "--no-instructions"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self._identity())
        rules = data / "pg_hba.conf"
        rules.write_text(f"local all +{ASKED} scram-sha-256\n{rules.read_text()}")
        shutil.move(data, template)

    def _copy(self, template):
        data = self.folder / "data"
        shutil.copytree(template, data)
        for path in [data, *data.rglob("*")] if self.account else ():
            shutil.chown(path, *self.account)

    def _identity(self):
        return dict(zip(("user", "group"), self.account, strict=True)) if self.account else {}


def _keep_log(pipe, path, is_ready):
    """Write down what a server says, and notice when it takes connections, or has ended."""
    with pipe, open(path, "ab") as log:
        for line in pipe:
            log.write(line)
            log.flush()
            if b"ready to accept connections" in line:
                is_ready.set()
    is_ready.set()


def _dies_with_us():
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "QUIT"] if program else []


def _fast_folder():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _unprivileged():
    """Return the user and the group to run as: PostgreSQL refuses root."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
    return None
