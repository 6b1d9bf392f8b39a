"""What Grep can be asked, under the names that models know from the field."""

from dataclasses import dataclass

from greenroom.tools.builtin.arguments import integer
from greenroom.tools.builtin.glob_pattern import MAX_PATTERN

_DEFAULT_LIMIT = 250
_MAX_LIMIT = 5_000
_MAX_CONTEXT = 50


def _context_lines(where: str) -> dict[str, object]:
    return {
        "type": "integer",
        "minimum": 0,
        "maximum": _MAX_CONTEXT,
        "description": f"Lines to show {where} each match, for content.",
    }


GREP_PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "minLength": 1,
            "description": "The regular expression, matched within each line.",
        },
        "path": {
            "type": "string",
            "description": "The file or folder to search. Default: the working directory.",
        },
        "glob": {
            "type": "string",
            "maxLength": MAX_PATTERN,
            "description": "Only files like this, such as *.js or src/**/*.{ts,tsx}; !*.min.js for "
            "all but those.",
        },
        "type": {"type": "string", "description": "Only files of this type: py, js, rust, go, …"},
        "output_mode": {
            "enum": ["content", "files_with_matches", "count"],
            "description": "What to return. Default files_with_matches.",
        },
        "-A": _context_lines("after"),
        "-B": _context_lines("before"),
        "-C": _context_lines("around"),
        "context": _context_lines("around"),
        "-n": {"type": "boolean", "description": "Show line numbers in content. Default true."},
        "-i": {"type": "boolean", "description": "Ignore case. Default false."},
        "case_insensitive": {"type": "boolean", "description": "The same as -i."},
        "multiline": {
            "type": "boolean",
            "description": "Let the expression span lines, and . match a line end. Default false.",
        },
        "head_limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": _MAX_LIMIT,
            "description": f"How many lines or files to return. Default {_DEFAULT_LIMIT}.",
        },
    },
    "required": ["pattern"],
    "additionalProperties": False,
}
"""The JSON Schema of Grep's input."""


@dataclass(frozen=True)
class GrepQuery:
    """One search, as asked."""

    pattern: str
    path: str
    glob: str
    type: str
    mode: str
    before: int
    after: int
    numbers: bool
    ignore_case: bool
    multiline: bool
    limit: int

    @classmethod
    def of(cls, data: dict[str, object]) -> "GrepQuery":
        """Read a valid input."""
        around = integer(data, "-C", integer(data, "context", 0))
        mode = str(data.get("output_mode", "files_with_matches"))
        in_context = mode == "content"
        return cls(
            pattern=str(data["pattern"]),
            path=str(data.get("path", ".")),
            glob=str(data.get("glob", "")),
            type=str(data.get("type", "")),
            mode=mode,
            before=integer(data, "-B", around) if in_context else 0,
            after=integer(data, "-A", around) if in_context else 0,
            numbers=bool(data.get("-n", True)),
            ignore_case=bool(data.get("-i") or data.get("case_insensitive")),
            multiline=bool(data.get("multiline")),
            limit=integer(data, "head_limit", _DEFAULT_LIMIT),
        )

    def ripgrep_arguments(self) -> list[str]:
        """Ask ripgrep for it."""
        arguments = ["--line-number", "--no-context-separator"]
        if self.mode == "count":
            arguments = ["--count"]
        elif self.mode == "files_with_matches":
            arguments.append("--max-count=1")
        if self.before or self.after:
            arguments += [f"--before-context={self.before}", f"--after-context={self.after}"]
        if self.ignore_case:
            arguments.append("--ignore-case")
        if self.multiline:
            arguments += ["--multiline", "--multiline-dotall"]
        return [*arguments, f"--regexp={self.pattern}", "--"]

    def searcher_options(self) -> dict[str, object]:
        """Ask `searcher` for it."""
        return {
            "pattern": self.pattern,
            "ignore_case": self.ignore_case,
            "multiline": self.multiline,
            "before": self.before,
            "after": self.after,
            "count": self.mode == "count",
            "max_count": 1 if self.mode == "files_with_matches" else 0,
        }
