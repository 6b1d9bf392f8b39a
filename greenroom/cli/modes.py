"""The permission mode of a run, and how a person switches it: Shift-Tab, `/mode`."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, get_args

from greenroom.core import ConfigurationError

if TYPE_CHECKING:  # an agent without rules is shown without what reads them
    from greenroom.permissions import PermissionManager
    from greenroom.permissions._internal import PermissionMode

CYCLE: "tuple[PermissionMode, ...]" = ("default", "accept-edits", "plan", "bypass")
"""The modes that a person can switch to, in the order of Shift-Tab."""

STRICT: "tuple[PermissionMode, ...]" = ("default", "plan")
"""Those that may be switched to while a rule file can't be used, which may have denied anything."""

BYPASS = (
    "the mode bypass asks about nothing: what no rule denies runs at once, and may change files"
)

DESCRIPTIONS: "dict[PermissionMode, str]" = {
    "default": "What no rule is about is asked.",
    "accept-edits": "Edits in the workspace of what is not protected are allowed;"
    " what else no rule is about is asked.",
    "plan": "Only reading is allowed, whatever the rules say.",
    "deny": "What is not allowed is denied, without asking.",
    "bypass": "What no rule denies is allowed, without asking, unless a denial may apply.",
}
"""What each mode does about what the rules leave open."""


class ModeSwitch:
    """Switches the mode of an agent's rules, which counts for the calls to come.

    Example:
        >>> from greenroom.permissions import PermissionManager
        >>> switch = ModeSwitch(PermissionManager())
        >>> switch.next()
        'accept-edits'
        >>> switch.choose("plan")
        'plan'
    """

    def __init__(
        self, permissions: "PermissionManager", modes: "tuple[PermissionMode, ...]" = CYCLE
    ) -> None:
        """Switch the mode of these rules among these modes."""
        self._permissions = permissions
        self.modes = modes
        """The modes that can be switched to."""

    @property
    def current(self) -> "PermissionMode":
        """The mode now; a plan that is approved changes it as well."""
        return self._permissions.mode

    @property
    def warning(self) -> str:
        """What a person must know about the mode; empty for most."""
        return BYPASS if self.current == "bypass" else ""

    def next(self) -> "PermissionMode":
        """Switch to the next mode of the cycle, and return it."""
        modes, current = self.modes, self.current
        place = modes.index(current) + 1 if current in modes else 0
        self._permissions.mode = modes[place % len(modes)]
        return self.current

    def choose(self, name: str) -> "PermissionMode":
        """Switch to the mode of this name, and return it.

        Raises:
            ConfigurationError: it can't be switched to, or there is none of that name; the mode
                stays.
        """
        found = next((each for each in self.modes if each == name), None)
        if found is None:
            message, hint = self._explain(name)
            raise ConfigurationError(message, hint=hint)
        self._permissions.mode = found
        return found

    def _explain(self, name: str) -> tuple[str, str]:
        """Say why a mode can't be switched to, with a hint."""
        from greenroom.permissions._internal import PermissionMode

        hint = f"one of {', '.join(self.modes)}"
        if name in CYCLE:
            return f"the mode {name} is off while a rule file can't be used", hint
        if name in get_args(PermissionMode):
            return f"the mode {name} is one to start with: --permission-mode {name}", hint
        near = get_close_matches(name, self.modes, 1)
        return f"there is no mode {name!r}", f"did you mean {near[0]}? {hint}" if near else hint
