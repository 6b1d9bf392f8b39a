"""What git would ignore: the rules of `.gitignore` files, as gitignore(5) describes them."""

import re
from dataclasses import dataclass
from pathlib import Path

from greenroom.core import ToolError
from greenroom.tools.builtin.atomic_file import open_regular
from greenroom.tools.builtin.glob_pattern import compile_part, match_parts

_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class _Rule:
    parts: tuple[re.Pattern[str] | None, ...]
    folders_only: bool
    keeps: bool

    @classmethod
    def parse(cls, line: str) -> "_Rule | None":
        text = line.rstrip(" ")
        if text.endswith("\\") and text != line:
            text += " "
        if not text or text.startswith("#"):
            return None
        keeps = text.startswith("!")
        text = text[1:] if keeps or text.startswith(("\\#", "\\!")) else text
        folders_only = text.endswith("/")
        text = text.rstrip("/")
        anchored = "/" in text
        names = [name for name in text.split("/") if name]
        if not names:
            return None
        parts = [compile_part(name) for name in names]
        if not anchored:
            parts.insert(0, None)
        elif parts[-1] is None:
            # "a/**" is all that lies in a, not a itself.
            parts.append(compile_part("*"))
        return cls(tuple(parts), folders_only, keeps)

    def matches(self, names: list[str], *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if len(self.parts) == 2 and self.parts[0] is None and self.parts[1] is not None:
            return self.parts[1].match(names[-1]) is not None
        return match_parts(self.parts, names)


class IgnoreRules:
    """The rules of one folder's `.gitignore`, on top of those of the folders above it.

    Example:
        >>> rules = IgnoreRules.parse(["*.log", "!keep.log", "build/"])
        >>> rules.ignores("a/x.log"), rules.ignores("keep.log"), rules.ignores("build", True)
        (True, False, True)
    """

    def __init__(self, rules: list[_Rule], folder: str, above: "IgnoreRules | None") -> None:
        """Made by `parse` and `below`."""
        # The last rule that matches decides.
        self._rules = rules[::-1]
        self._folder = folder
        self._above = above

    @classmethod
    def parse(
        cls, lines: list[str], folder: str = "", above: "IgnoreRules | None" = None
    ) -> "IgnoreRules":
        """Take the lines of the file in `folder`, a path with a final slash or empty."""
        return cls([rule for line in lines if (rule := _Rule.parse(line))], folder, above)

    def below(self, real: Path, folder: str) -> "IgnoreRules":
        """Return the rules that hold in a folder: these, and those of its own file, if any.

        Args:
            real: the folder on disk.
            folder: the same, relative to where these rules begin, with a final slash.
        """
        try:
            with open_regular(real / ".gitignore", ".gitignore") as file:
                data = file.read(_MAX_BYTES)
        except (OSError, ToolError):
            return self
        lines = data.decode("utf-8", "surrogateescape").splitlines()
        return IgnoreRules.parse(lines, folder, self)

    def ignores(self, path: str, is_folder: bool = False) -> bool:
        """Whether a path is ignored, given that its folder is not."""
        names = path[len(self._folder) :].split("/")
        for rule in self._rules:
            if rule.matches(names, is_folder=is_folder):
                return not rule.keeps
        return self._above.ignores(path, is_folder) if self._above else False
