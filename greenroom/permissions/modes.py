"""The names of modes, which say how calls are settled that no rule decides; see `settling`."""

from typing import Literal, TypeAlias, get_args

from greenroom.core import ConfigurationError

PermissionMode: TypeAlias = Literal["default", "accept-edits", "plan", "deny", "bypass"]
"""How open questions are settled.

- default: the person is asked.
- accept-edits: tools of the category write may write what is not protected in the workspace.
- plan: only tools and commands that read are allowed.
- deny: what would be asked is denied.
- bypass: what no rule denies is allowed. The person is still asked if it is unclear whether a rule
  denies it, and before Greenroom's own rules are written.
"""

Sandboxed: TypeAlias = Literal["ask", "allow"]
"""How open questions are settled about a command whose sandbox holds files and network.

- ask: like those about any other command.
- allow: it is allowed, unless it names something protected or it is unclear whether a rule denies
  it.
"""


def check_mode(mode: str, sandboxed: str = "ask") -> None:
    """Check the name of a mode, and the value of `sandboxed`.

    Raises:
        ConfigurationError: a value is unknown; the error names the known ones.
    """
    modes, ways = get_args(PermissionMode), get_args(Sandboxed)
    for what, value, known in (("permission mode", mode, modes), ("sandboxed", sandboxed, ways)):
        if value not in known:
            raise ConfigurationError(
                f"unknown {what}: {value!r}", hint=f"one of {', '.join(known)}"
            )
