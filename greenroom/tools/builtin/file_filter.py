"""Which files a search wants: by type and by pattern, the same for every engine."""

import re

from greenroom.core import ToolError
from greenroom.tools.builtin.glob_pattern import GlobPattern, expand_braces

FILE_TYPES = {
    "c": "*.{c,h}",
    "cpp": "*.{C,cc,cpp,cxx,h,hh,hpp,hxx,inl}",
    "cs": "*.cs",
    "css": "*.{css,scss}",
    "csv": "*.csv",
    "docker": "*{Dockerfile,.dockerfile}",
    "elixir": "*.{ex,eex,exs}",
    "erlang": "*.{erl,hrl}",
    "go": "*.go",
    "haskell": "*.{hs,lhs}",
    "html": "*.{htm,html,ejs}",
    "java": "*.{java,jsp,properties}",
    "js": "*.{js,jsx,mjs,cjs,vue}",
    "json": "*.{json,jsonl}",
    "kotlin": "*.{kt,kts}",
    "lua": "*.lua",
    "make": "{Makefile,makefile,GNUmakefile,*.mk,*.mak}",
    "markdown": "*.{md,mdx,markdown,mkd}",
    "md": "*.{md,mdx,markdown,mkd}",
    "perl": "*.{pl,pm,t}",
    "php": "*.php",
    "protobuf": "*.proto",
    "ps": "*.{ps1,psm1,psd1}",
    "py": "*.{py,pyi}",
    "python": "*.{py,pyi}",
    "r": "*.{r,R,Rmd,Rnw}",
    "rst": "*.rst",
    "ruby": "{*.rb,*.gemspec,Gemfile,Rakefile}",
    "rust": "*.rs",
    "scala": "*.{scala,sbt}",
    "sh": "*.{sh,bash,zsh,ksh}",
    "sql": "*.sql",
    "svelte": "*.svelte",
    "swift": "*.swift",
    "tex": "*.{tex,sty,cls,bib}",
    "toml": "*.toml",
    "ts": "*.{ts,tsx,mts,cts}",
    "txt": "*.txt",
    "vue": "*.vue",
    "xml": "*.{xml,xsd,xsl,xslt}",
    "yaml": "*.{yaml,yml}",
    "zig": "*.zig",
}
"""The known types of files, each by a pattern of their names."""

_PLAIN_NAME = re.compile(r"[\w.*?+-]+")


class FileFilter:
    """Wants files of a type, and of a pattern; a pattern after `!` is what it does not want.

    A pattern without `/` is matched against the name, in whatever folder; another one against the
    path from the searched folder.

    Example:
        >>> wanted = FileFilter(glob="*.{ts,tsx}")
        >>> wanted.matches("a/b.tsx"), wanted.names
        (True, ['*.ts', '*.tsx'])
    """

    def __init__(self, glob: str = "", file_type: str = "") -> None:
        """Make a filter; without arguments it wants every file.

        Raises:
            ToolError: no such type.
        """
        if file_type and file_type not in FILE_TYPES:
            known = ", ".join(FILE_TYPES)
            raise ToolError(f"there is no file type {file_type!r}", hint=f"use one of {known}")
        self._type = GlobPattern(f"**/{FILE_TYPES[file_type]}") if file_type else None
        self._excludes = glob.startswith("!")
        pattern = glob.removeprefix("!").removeprefix("./")
        anchored = "/" in pattern.rstrip("/")
        self._glob = GlobPattern(pattern if anchored else f"**/{pattern}") if pattern else None
        broad = pattern if pattern and not self._excludes else ""
        self.names = _file_names(FILE_TYPES[file_type] if file_type else broad)

    def matches(self, path: str) -> bool:
        """Whether the file of this path, relative to the searched folder, is wanted."""
        if self._type and not self._type.matches(path):
            return False
        return self._glob is None or self._glob.matches(path) is not self._excludes


def _file_names(pattern: str) -> list[str]:
    """Return patterns of file names that all wanted files have; empty where there are none.

    They let ripgrep skip files. What it then finds is filtered by `matches` all the same.
    """
    names = [one.rstrip("/").rpartition("/")[2] for one in expand_braces(pattern)]
    return names if all(map(_PLAIN_NAME.fullmatch, names)) else []
