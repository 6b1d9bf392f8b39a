"""The environment of child processes: what they need, and no secret of ours."""

from collections.abc import Mapping

_KEPT = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "TMPDIR",
        "TMP",
        "TEMP",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "JAVA_HOME",
        "GOPATH",
        "GOROOT",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "NVM_DIR",
        "PYENV_ROOT",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "CI",
        "SOURCE_DATE_EPOCH",
    }
)
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
_SET = {"GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "PAGER": "cat"}


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that a command may have, pagers and prompts off.

    A short list is kept (search path, home, language, terminal, temporary folder, tool chains,
    certificates, proxies without a password) and all else dropped. So no key, token or password gets
    through under whatever name, nor what would change how a program loads or runs (`LD_PRELOAD`,
    `BASH_ENV`, `PYTHONSTARTUP`, `NODE_OPTIONS`, `GIT_CONFIG_COUNT`, `IFS`).

    Example:
        >>> clean_environment({"LANG": "C", "MY_API_KEY": "k", "LD_PRELOAD": "x.so"})["LANG"]
        'C'
        >>> "MY_API_KEY" in clean_environment({"MY_API_KEY": "k"})
        False
    """
    kept = {name: value for name, value in environment.items() if _is_kept(name, value)}
    return {**kept, **_SET}


def _is_kept(name: str, value: str) -> bool:
    if name.upper() in _PROXIES:
        return "@" not in value
    return name in _KEPT or name.startswith("LC_")
