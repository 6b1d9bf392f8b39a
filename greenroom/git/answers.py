"""What git says of repositories, asked once for each until its configuration changes."""

import os
import shutil
import stat
import subprocess
import time
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock

from greenroom.git.index import find_root
from greenroom.git.overrides import GIT_SETTINGS
from greenroom.git.questions import GitAnswer, ask_git

MAX_CACHED = 64  # repositories
TICK = 50_000_000  # nanoseconds; two changes within may leave a file with the same time


class GitAnswers:
    """What git says of repositories, each asked about once until its configuration changes.

    A change of its index makes a further question necessary, too. At most 64 repositories are
    remembered. It can be used from any thread.

    Args:
        program: the file of git, which must not lie in a workspace; by default, the first one on
            the search path.
        environment: the variables that git commands have; by default, those of this process.

    Example:
        >>> GitAnswers().find("/")
        GitAnswer(reason='', has_submodules=False, top='')
    """

    def __init__(self, program: str = "", environment: Mapping[str, str] | None = None) -> None:
        known = os.environ if environment is None else environment
        self._environment = {k: v for k, v in known.items() if not k.startswith("GIT_")}
        self._environment.update(GIT_SETTINGS)
        self._program = program or shutil.which("git", path=known.get("PATH")) or ""
        self._known = OrderedDict[str, tuple[GitAnswer, tuple[tuple[int, ...], ...]]]()
        self._lock = Lock()

    def find(self, folder: str) -> GitAnswer | None:
        """Return what is known; this starts no program and reads no file.

        Returns:
            The answer, which is empty where there is no repository; None if git was not asked, or
            something has changed since.
        """
        top = _find_top(folder)
        with self._lock:
            answer, signature = self._known.get(top, (None, ()))
        if not top:
            return GitAnswer()
        return answer if answer and tuple(map(_identify, answer.files)) == signature else None

    def ask(self, folder: str) -> GitAnswer:
        """Return what is known, asking git if necessary, which may block for a second.

        It raises nothing: what fails is the answer's reason.
        """
        if (known := self.find(folder)) is not None:
            return known
        started, top = time.time_ns(), _find_top(folder)
        if not os.path.isabs(self._program):
            return GitAnswer("git is not installed")
        try:
            answer = ask_git(os.path.realpath(folder), self._program, self._environment)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return GitAnswer(f"the repository can't be looked at: {error}")
        signature = tuple(map(_identify, answer.files))
        is_stable = all(len(each) < 6 or each[-1] < started - TICK for each in signature)
        if answer.files and answer.top == top and is_stable:
            with self._lock:
                self._known[top] = answer, signature
                self._known.move_to_end(top)
                if len(self._known) > MAX_CACHED:
                    self._known.popitem(last=False)
        return answer


def _find_top(folder: str) -> str:
    """Find the nearest folder that git may take for a repository or its work tree; "" if none."""
    return find_root(os.path.realpath(folder), (".git", "HEAD"))


def _identify(path: str) -> tuple[int, ...]:
    """Identify a file and its state; a folder without its times, since those always change."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    times = (found.st_size, found.st_mtime_ns, found.st_ctime_ns)  # no program can set the last
    is_folder = stat.S_ISDIR(found.st_mode)
    return (found.st_dev, found.st_ino, found.st_mode, *(() if is_folder else times))
