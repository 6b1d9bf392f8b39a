"""Git commands that only read, made safe by words and variables.

A repository's own files may name programs that git runs while it reads: pagers, hooks, drivers of
diffs, a file system monitor. `add_overrides` switches them off. What no word switches off is asked
about before (`GitAnswers`).
"""

from collections.abc import Sequence

from greenroom.programs._internal import find_git_verb

_CONFIGURATION = """
    core.fsmonitor=false core.hooksPath=/dev/null core.sshCommand=false core.gitProxy=false
    core.askPass=false diff.submodule=short status.submoduleSummary=false submodule.recurse=false
    log.showSignature=false log.diffMerges=separate gpg.program=false gpg.openpgp.program=false
    gpg.x509.program=false gpg.ssh.program=false safe.bareRepository=explicit
"""
OVERRIDES = (
    "--no-pager",
    "--no-optional-locks",
    *(word for each in _CONFIGURATION.split() for word in ("-c", each)),
)
"""The words behind `git` that switch off what a repository's configuration names."""

GIT_SETTINGS = (("GIT_ALLOW_PROTOCOL", "none"), ("GIT_NO_LAZY_FETCH", "1"))
"""The variables that go with them; objects that a partial clone lacks are not fetched."""

_NO_DRIVERS = ("--no-ext-diff", "--no-textconv")
_NOT_INSIDE = ("--ignore-submodules=dirty",)
_BEHIND_VERB = {
    **dict.fromkeys(("log", "show", "blame", "annotate", "diff-tree"), _NO_DRIVERS),
    **dict.fromkeys(("diff", "diff-files", "diff-index"), _NO_DRIVERS + _NOT_INSIDE),
    "status": _NOT_INSIDE,
}


def find_verb(argv: Sequence[str]) -> int:
    """Find the position of git's verb, behind options such as `-C DIR`; the end if there is none.

    Example:
        >>> find_verb(("git", "-C", "log", "--no-pager", "status"))
        4
    """
    at, _ = find_git_verb(argv)
    return at


def add_overrides(argv: Sequence[str]) -> tuple[str, ...]:
    """Add the words that keep a git command from running what its repository names.

    Only for a command that just reads, with `GIT_SETTINGS` as its variables. In a repository that
    names no programs the output stays the same, but changes inside submodules are not shown.

    Example:
        >>> words = add_overrides(("git", "-C", "sub", "log", "-3"))
        >>> words[:3], words[-6:-3]
        (('git', '--no-pager', '--no-optional-locks'), ('-C', 'sub', 'log'))
        >>> words[-3:]
        ('--no-ext-diff', '--no-textconv', '-3')
    """
    at = find_verb(argv) + 1
    behind = _BEHIND_VERB.get("".join(argv[at - 1 : at]), ())
    return (argv[0], *OVERRIDES, *argv[1:at], *behind, *argv[at:])


def hides_changes(argv: Sequence[str]) -> bool:
    """Return whether a git command with overrides shows no changes inside submodules.

    Example:
        >>> hides_changes(("git", "status", "-s")), hides_changes(("git", "log"))
        (True, False)
    """
    return set(_NOT_INSIDE) <= set(_BEHIND_VERB.get("".join(argv[find_verb(argv) :][:1]), ()))
