"""Control groups: limits on all processes of a command together, if we may make such a group."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

_MOUNTED = Path("/sys/fs/cgroup")
_PREFIX = "greenroom-"
_MEGABYTE = 1 << 20
_LIMIT_FILES = {
    1: {"memory": "memory.limit_in_bytes", "pids": "pids.max"},
    2: {"memory": "memory.max", "pids": "pids.max"},
}


class CgroupPlaces(msgspec.Struct, frozen=True):
    """Where groups can be made.

    Attributes:
        version: the version of control groups, 1 or 2.
        folders: the folders to use for the controllers "memory" and "pids", as far as there are.
    """

    version: int = 2
    folders: tuple[tuple[str, Path], ...] = ()

    @classmethod
    def find(
        cls, mounted: Path = _MOUNTED, own: Path = Path("/proc/self/cgroup")
    ) -> "CgroupPlaces":
        """Find where this process may make groups. Reads the disk: call it in a thread."""
        try:
            lines = [line.split(":", 2) for line in own.read_text().splitlines()]
        except OSError:
            return cls()
        version = 2 if (mounted / "cgroup.controllers").exists() else 1
        found = []
        for controller in ("memory", "pids"):
            for folder in _list_candidates(version, controller, lines, mounted):
                if _is_usable(folder, _LIMIT_FILES[version][controller]):
                    found.append((controller, folder))
                    break
        return cls(version, tuple(found))


def _list_candidates(
    version: int, controller: str, lines: Sequence[Sequence[str]], mounted: Path
) -> Iterator[Path]:
    """List the folders to try: our own group, and those around it."""
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controller not in controllers.split(",") and (version, controllers) != (2, ""):
            continue
        base = mounted if version == 2 else mounted / controllers
        base = base if base.is_dir() else mounted / controller
        group = base / path.lstrip("/")
        # In a container the path may belong to the system outside.
        yield from (each for each in (group, *group.parents) if each.is_relative_to(base))


def _is_usable(folder: Path, limit_file: str) -> bool:
    probe = folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        probe.mkdir()
    except OSError:
        return False
    _remove_stale(folder)
    try:
        return os.access(probe / limit_file, os.W_OK) and os.access(
            folder / "cgroup.procs", os.W_OK
        )
    finally:
        probe.rmdir()


def _remove_stale(folder: Path) -> None:
    """Remove the groups of processes that were killed before they could do so."""
    for group in folder.glob(f"{_PREFIX}*"):
        pid = group.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with suppress(OSError):  # some process in it is still alive
                group.rmdir()


class Cgroup:
    """A control group, or one for each controller, from `make` to `remove`."""

    def __init__(self) -> None:
        self._folders: list[Path] = []

    @classmethod
    def make(
        cls, places: CgroupPlaces, *, memory_megabytes: int | None, processes: int | None
    ) -> "Cgroup":
        """Make a group with these limits, as far as there are places for them.

        Raises:
            OSError: it can no longer be made.
        """
        limits = {"memory": memory_megabytes and memory_megabytes * _MEGABYTE, "pids": processes}
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        group = cls()
        for controller, folder in places.folders:
            if limits[controller]:
                group._add(
                    folder / name, _LIMIT_FILES[places.version][controller], limits[controller]
                )
        return group

    def _add(self, folder: Path, limit_file: str, value: int | None) -> None:
        if folder not in self._folders:
            folder.mkdir()
            self._folders.append(folder)
        (folder / limit_file).write_text(str(value))
        if "memory" in limit_file:
            # Otherwise it would swap first; without such a limit there is no swap.
            for swap, most in (("memory.memsw.limit_in_bytes", value), ("memory.swap.max", 0)):
                with suppress(OSError):
                    (folder / swap).write_text(str(most))

    @property
    def members(self) -> list[str]:
        """The files that a process writes its id to in order to join."""
        return [str(folder / "cgroup.procs") for folder in self._folders]

    def remove(self) -> None:
        """Remove the group, whose processes have all ended."""
        for folder in self._folders:
            with suppress(OSError):  # one of them could not be killed
                folder.rmdir()
        self._folders.clear()
