"""A disk in memory that forgets: a power cut may take what was not synced, in part or whole.

It stands in for `os` (and `fcntl`) in the modules of the store. A file knows what was written since
its last sync; a folder knows which names appeared or went since its own. Two models say what a
power cut leaves of the names:

* "ordered", as ext4 in its default mode: names reach the disk in the order in which they changed,
  and any sync takes all of them along;
* "strict", as POSIX has it: a folder's names are safe only once that very folder was synced; until
  then each change may be lost or kept by itself.

Of a file's unsynced writes a cut leaves nothing, a prefix, or any of the 512-byte sectors, with
zeros in the place of the others. A sync that fails drops what it was to write and still shows it to
readers, as Linux does with content. It drops a new size too, which Linux would write with the next
sync that succeeds; POSIX promises neither.
"""

import errno
import os
import stat
from types import SimpleNamespace

SECTOR = 512
MODELS = ("ordered", "strict")


class Crash(BaseException):
    """The process is gone: no later call reaches the disk."""


class File:
    """What readers see, what the disk surely has, and the writes between the two."""

    def __init__(self):
        self.data, self.synced, self.pending = bytearray(), b"", []
        self.links, self.holder, self.moment = 0, None, 0.0

    def write(self, at, data):
        if at > len(self.data):
            self.data.extend(bytes(at - len(self.data)))
        self.data[at : at + len(data)] = data
        self.pending.append((at, data))

    def cut(self, size):
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))
        self.pending.append((size, None))

    def sync(self):
        synced = bytearray(self.synced)
        for at, data in self.pending:
            _apply(synced, at, data)
        self.synced, self.pending = bytes(synced), []

    def lose_power(self, rng):
        how = rng.choice((self._nothing, self._prefix, self._sectors))
        self.synced = bytes(how(rng)) if self.pending else self.synced
        self.data, self.pending = bytearray(self.synced), []

    def _nothing(self, rng):
        return self.synced

    def _prefix(self, rng):
        left = rng.randint(0, sum(len(data or b"x") for _, data in self.pending))
        kept = bytearray(self.synced)
        for at, data in self.pending:
            if left <= 0:
                break
            _apply(kept, at, data and data[:left])
            left -= len(data or b"x")
        return kept

    def _sectors(self, rng):
        kept, size = bytearray(self.synced), len(self.synced)
        for at, data in self.pending:
            if data is None:
                if rng.random() < 0.5:
                    del kept[at:]
                    size = at
                continue
            start = at
            while start < at + len(data):
                stop = min(start - start % SECTOR + SECTOR, at + len(data))
                if rng.random() < 0.5:
                    _apply(kept, start, data[start - at : stop - at])
                start = stop
            size = max(size, at + len(data))
        if rng.random() < 0.5:  # the new size came through, whatever of the content did
            kept.extend(bytes(max(0, size - len(kept))))
        return kept


def _apply(kept, at, data):
    if data is None:
        del kept[at:]
        return
    kept.extend(bytes(max(0, at - len(kept))))
    kept[at : at + len(data)] = data


class Folder:
    """Names as processes see them, and as the disk surely has them."""

    def __init__(self):
        self.names, self.synced, self.moment = {}, {}, 0.0


class SimulatedDisk:
    """The part of `os` and `fcntl` that the store uses, over files that may be forgotten."""

    LOCK_EX, LOCK_NB = 2, 4

    def __init__(self, model, rng):
        assert model in MODELS
        self.model, self.rng = model, rng
        self.root, self.changes, self.open_files = Folder(), [], {}
        self.path = SimpleNamespace(
            **{name: getattr(os.path, name) for name in ("join", "dirname", "split", "abspath")},
            realpath=os.path.abspath,  # this disk has no links
            exists=self._exists,
            samestat=lambda one, other: one.st_ino == other.st_ino,
        )
        self.restart()

    # -- what the tests do to it ---------------------------------------------------------------

    def restart(self):
        """Begin to count operations anew; from here on nothing fails."""
        self.count, self.crash_at, self.fail_at = 0, None, None
        self.is_short = self.is_dead = False

    def kill(self):
        """End the process: what it had open is closed, and what it wrote is there."""
        for descriptor in list(self.open_files):
            self._close(descriptor)
        self.restart()

    def lose_power(self):
        """End everything: what was not synced is lost as the model allows."""
        self.kill()
        kept = self.rng.randint(0, len(self.changes))
        for index, (folder, change) in enumerate(self.changes):
            if index < kept if self.model == "ordered" else self.rng.random() < 0.5:
                _rename(folder.synced, change)
        self.changes.clear()
        self._forget(self.root)

    def put(self, path, data):
        """Let a file be of these bytes, safely on the disk."""
        file = self._find(path)
        file.data, file.synced, file.pending = bytearray(data), bytes(data), []

    def read_whole(self, path):
        """Return a file's content as processes see it, or b"" where there is no such file."""
        return bytes(self._find(path).data) if self._exists(path) else b""

    def _forget(self, folder):
        folder.names = dict(folder.synced)
        for node in folder.names.values():
            if isinstance(node, Folder):
                self._forget(node)
            else:
                node.links = 1
                node.lose_power(self.rng)

    # -- what the store calls ------------------------------------------------------------------

    def __getattr__(self, name):
        if name.startswith("F_"):
            raise AttributeError(name)
        return getattr(os, name)  # constants, getpid, fspath

    def open(self, path, flags, mode=0o777):
        self._operation()
        if self._exists(path):
            if flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, "File exists", path)
            node = self._find(path)
        elif flags & os.O_CREAT:
            folder, name = self._parent(path)
            self._change(folder, {name: File()})
            node = folder.names[name]
        else:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if isinstance(node, File) and flags & os.O_TRUNC:
            node.cut(0)
        fd = 3
        while fd in self.open_files:
            fd += 1
        self.open_files[fd] = node
        return fd

    def write(self, fd, data):
        file = self.open_files.get(fd)
        self._operation(lambda: file.write(len(file.data), bytes(data)[: len(data) // 2]))
        data = bytes(data)[: max(1, len(data) // 2) if self.is_short else None]
        file.write(len(file.data), data)
        return len(data)

    def pwrite(self, fd, data, at):
        self._operation()
        self.open_files[fd].write(at, bytes(data))
        return len(data)

    def pread(self, fd, size, at):
        self._operation()
        return bytes(self.open_files[fd].data[at : at + size])

    def ftruncate(self, fd, size):
        self._operation()
        self.open_files[fd].cut(size)

    def fdatasync(self, fd):
        node = self.open_files.get(fd)
        self._operation(failing=lambda: self._drop(node))
        self._sync(node)

    fsync = fdatasync

    def close(self, fd):
        self._operation(failing=lambda: self._close(fd))
        self._close(fd)

    def flock(self, fd, how):
        self._operation()
        file = self.open_files[fd]
        if file.holder not in (None, fd):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        file.holder = fd

    def fstat(self, fd):
        self._operation()
        return _status(self.open_files[fd])

    def stat(self, path):
        self._operation()
        return _status(self._find(path))

    lstat = stat

    def utime(self, fd, times):
        self._operation()
        self.open_files[fd].moment = times[1]

    def mkdir(self, path, mode=0o777):
        self._operation()
        folder, name = self._parent(path)
        if name in folder.names:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self._change(folder, {name: Folder()})

    def rmdir(self, path):
        self._operation()
        folder, name = self._parent(path)
        if self._find(path).names:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        self._change(folder, {name: None})

    def unlink(self, path):
        self._operation()
        folder, name = self._parent(path)
        self._find(path)
        self._change(folder, {name: None})

    def rename(self, old, new):
        self._operation()
        folder, name = self._parent(old)
        self._change(folder, {name: None, self._parent(new)[1]: self._find(old)})

    def listdir(self, path):
        self._operation()
        return list(self._find(path).names)

    # -- inside --------------------------------------------------------------------------------

    def _operation(self, half=lambda: None, failing=lambda: None):
        """Count a call; it is the one to crash or to fail at, or it goes on."""
        if self.is_dead:
            raise Crash
        self.count += 1
        if self.count == self.crash_at:
            self.is_dead = True
            if self.rng.random() < 0.5:
                half()
            raise Crash
        if self.count == self.fail_at:
            failing()
            raise OSError(errno.EIO, "Input/output error")

    def _exists(self, path):
        try:
            self._find(path)
        except OSError:
            return False
        return True

    def _parent(self, path):
        above, _, name = path.rpartition("/")
        return self._find(above), name

    def _find(self, path):
        node = self.root
        for name in filter(None, path.split("/")):
            if not isinstance(node, Folder):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
            if name not in node.names:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            node = node.names[name]
        return node

    def _change(self, folder, change):
        for name, node in change.items():
            for each, step in ((folder.names.get(name), -1), (node, 1)):
                if isinstance(each, File):
                    each.links += step
        _rename(folder.names, change)
        self.changes.append((folder, change))

    def _sync(self, node):
        if isinstance(node, File):
            node.sync()
        done = [each for each in self.changes if self.model == "ordered" or each[0] is node]
        for folder, change in done:
            _rename(folder.synced, change)
        self.changes = [each for each in self.changes if each not in done]

    def _drop(self, node):
        if isinstance(node, File):
            node.pending.clear()

    def _close(self, fd):
        node = self.open_files.pop(fd)
        if isinstance(node, File) and node.holder == fd:
            node.holder = None


def _rename(names, change):
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _status(node):
    size = len(node.data) if isinstance(node, File) else 0
    links = node.links if isinstance(node, File) else 1
    return SimpleNamespace(
        st_size=size,
        st_nlink=links,
        st_ino=id(node),
        st_dev=0,
        st_mtime=node.moment,
        st_mode=stat.S_IFREG if isinstance(node, File) else stat.S_IFDIR,
    )
