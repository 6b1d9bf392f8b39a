"""The rule that an "always" proposes for a command: its program and verbs, or its exact words."""

import re

from greenroom.permissions.facts.fact import Command
from greenroom.permissions.rules.matcher import RuleMatcher, quoted_words
from greenroom.permissions.shell.wrappers import ELSEWHERE, SHELLS, WRAPPERS

__all__ = ["command_matcher"]

# How many words name what is done, the program included.
_VERBS = {
    **dict.fromkeys(
        (
            "git",
            "docker",
            "kubectl",
            "gh",
            "npm",
            "pnpm",
            "yarn",
            "cargo",
            "go",
            "uv",
            "poetry",
            "brew",
            "systemctl",
            "terraform",
            "aws",
            "gcloud",
            "az",
            "dotnet",
            "mvn",
            "gradle",
            "ruff",
            "hatch",
            "pdm",
            "podman",
            "helm",
            "bundle",
            "rake",
            "tox",
        ),
        2,
    ),
    **dict.fromkeys(("pytest", "mypy", "ls", "cat", "grep", "rg", "head", "tail", "wc", "jq"), 1),
    **dict.fromkeys(("black", "isort", "eslint", "tsc", "tree", "stat", "du", "df", "diff"), 1),
}
_LONGER = frozenset(
    (
        "npm run",
        "pnpm run",
        "yarn run",
        "docker compose",
        "gh pr",
        "gh issue",
        "gh run",
        "uv run",
        "aws s3",
        "poetry run",
        "go tool",
        "git stash",
        "git remote",
        "bundle exec",
        "pdm run",
        "cargo run",
        "gcloud compute",
        "az vm",
        "kubectl config",
        "systemctl status",
        "hatch run",
    )
)
_VERB = re.compile(r"[a-z][a-z0-9:_-]*")
# What these do depends wholly on their words; no part of a call to them is narrow enough.
_NEVER = frozenset(
    (
        *SHELLS,
        "python",
        "python3",
        "node",
        "deno",
        "ruby",
        "perl",
        "php",
        "lua",
        "R",
        "osascript",
        "eval",
        "source",
        ".",
        "awk",
        "sed",
        "tee",
        "dd",
        "rm",
        "mv",
        "chmod",
        "chown",
        "ssh",
        "curl",
        "wget",
        "pip",
        "pip3",
        "pipx",
        "apt",
        "apt-get",
        "dnf",
        "yum",
        "find",
        "export",
        "set",
        "trap",
        "alias",
        "kill",
        "pkill",
        "killall",
        "shutdown",
        "reboot",
        "scp",
        "rsync",
    )
)
_EXACT = frozenset({"python", "python3", "node", "deno", "ruby", "perl", "php", "make", "sed"})
_INLINE = frozenset({"-c", "-e", "-m", "-r", "--eval", "-"})


def command_matcher(fact: Command, tool: str) -> RuleMatcher | None:
    """Propose a matcher for a command, or None if no narrow one exists.

    It is a prefix where the program is known to name what it does by its first words, as
    `git status` does; for other programs exactly these words, and for interpreters, wrappers and
    programs that remove or fetch things nothing at all.
    """
    if fact.cautions or fact.outer is not None or not fact.argv:
        return None
    program = fact.argv[0].text
    prefix = _prefix(fact)
    if prefix:
        return RuleMatcher(tool=(tool,), command_prefix=(quoted_words(prefix),))
    refused = program in _NEVER or program in WRAPPERS or program in ELSEWHERE
    script = program in _EXACT and not any(word.text in _INLINE for word in fact.argv[1:])
    if not fact.known or (refused and not script) or (len(fact.argv) == 1 and refused):
        return None
    return RuleMatcher(tool=(tool,), argv_exact=tuple(word.text for word in fact.argv))


def _prefix(fact: Command) -> tuple[str, ...]:
    """Take the program and its verbs, if they stand where they should."""
    words = tuple(word.text for word in fact.argv)
    if words[:2] in (("python", "-m"), ("python3", "-m")):
        named = len(words) > 2 and re.fullmatch(r"[a-z][\w.]*", words[2])
        return words[:3] if named and words[2] not in ("pip", "http.server") else ()
    length = _VERBS.get(words[0], 0)
    if " ".join(words[:2]) in _LONGER:
        length = 3
    verbs = fact.argv[:length]
    plain = all(word.static and _VERB.fullmatch(word.text) for word in verbs)
    return words[:length] if plain and len(verbs) == length else ()
