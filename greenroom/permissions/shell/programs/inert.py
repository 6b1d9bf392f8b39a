"""Programs that don't run what their words say, so that a word such as `rm` there is only a word."""

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.programs.wrappers import SHELLS, WRAPPERS

__all__ = ["is_known"]

_BUILTINS = (
    ": . [ alias bg bind break builtin cd command compgen complete continue declare dirs disown "
    "echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local "
    "logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt source "
    "suspend test times trap true type typeset ulimit umask unalias unset wait which whereis"
)
_TEXT = (
    "awk base64 basename bat cat cksum cmp col column comm csplit cut diff dirname egrep expand "
    "expr fgrep file fmt fold gawk grep head hexdump iconv join jq less locate look md5sum more "
    "nl od paste pr ptx rev rg sed seq sha1sum sha256sum shuf sort split strings sum tac tail tee "
    "tr tsort uniq wc xxd yq zcat zgrep"
)
_FILES = (
    "chgrp chmod chown cp dd df du find install ln ls mkdir mkfifo mktemp mv readlink realpath rm "
    "rmdir rsync scp shred stat tar touch tree truncate unlink unzip zip gzip gunzip bzip2 xz"
)
_SYSTEM = (
    "apt apt-get apt-cache brew date dpkg free hostname id kill killall lsof man mount nproc pgrep "
    "ping pkill printenv ps reboot service shutdown sleep systemctl top uname uptime user whoami "
    "curl wget dig host nc netstat ss ssh-keygen openssl"
)
_DEVELOPMENT = (
    "git gh hg svn make cmake ninja gcc g++ clang cc ld cargo rustc rustup go gofmt python python3 "
    "pip pip3 node deno ruby perl php java javac mvn gradle dotnet terraform helm aws gcloud az "
    "pytest tox nox ruff black mypy flake8 isort pylint pyright eslint prettier tsc jest vitest "
    "twine virtualenv composer rake swift xcodebuild sqlite3 psql mysql redis-cli code"
)
_KNOWN = frozenset(
    (*_BUILTINS.split(), *_TEXT.split(), *_FILES.split(), *_SYSTEM.split(), *_DEVELOPMENT.split())
) | {*WRAPPERS, *SHELLS}


def is_known(program: Word) -> bool:
    """Tell whether it is known what the program does with its words."""
    return program.text.rpartition("/")[2] in _KNOWN
