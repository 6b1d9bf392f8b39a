"""The short form of rules that people type, such as `Bash(git status:*)`."""

import re

from greenroom.core import RuleFileError
from greenroom.permissions.rules.matcher import RuleMatcher
from greenroom.permissions.shell.grammar.split import split_words

__all__ = ["parse_matcher"]

_FORM = re.compile(r"\s*(?P<tool>\*|[A-Za-z_][\w.:/-]*)\s*(?:\((?P<spec>.*)\))?\s*", re.DOTALL)
_EXAMPLES = (
    "write Read, Bash(git status:*), Bash(exact command), Edit(src/**), "
    "WebFetch(domain:docs.python.org) or *"
)


def parse_matcher(text: str) -> RuleMatcher:
    """Read the short form of a rule.

    Raises:
        RuleFileError: it has none of the known forms.

    Example:
        >>> parse_matcher("Bash(npm run *)").command_prefix
        ('npm run',)
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    tool, spec = form["tool"], form["spec"]
    if spec is None or spec.strip() == "*":
        return RuleMatcher(all=True) if tool == "*" else RuleMatcher(tool=(tool,))
    if tool == "*" or not spec.strip():
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    if tool == "Bash":
        return _command(spec.strip())
    if spec.startswith("domain:"):
        return RuleMatcher(tool=(tool,), domain=(spec.removeprefix("domain:").strip(),))
    if tool == "WebFetch":
        raise RuleFileError(f"not a host: {spec!r}", hint="write WebFetch(domain:docs.python.org)")
    return RuleMatcher(tool=(tool,), path=(spec.strip(),))


def _command(spec: str) -> RuleMatcher:
    for ending in (":*", " *"):
        if spec.endswith(ending):
            return RuleMatcher(tool=("Bash",), command_prefix=(spec.removesuffix(ending),))
    if "*" in spec:
        raise RuleFileError(
            f"a star may only stand at the end of a command: {spec!r}",
            hint="write Bash(git status:*)",
        )
    return RuleMatcher(tool=("Bash",), argv_exact=split_words(spec))
