"""Which options make a harmless program write files or run others: one table for all of them.

An option is in it if it names a file that is written, for programs that else only read and print; or
a program, a plug-in or a file of commands that is run, and that neither the program nor the project
would run by itself. So `gcc -o out`, `pytest -p plugin` and `make -C sub` are not: a compiler writes,
a test runner runs the code of the project, and so does make, in each of its folders.
"""

from greenroom.permissions.shell.programs.options import Options

__all__ = ["CAREFUL_OPTIONS", "SAME", "TO_FILES"]

_PAGER = Options(words=("--pager",))
_IN_PLACE = Options("i", "", ("--in-place", "--inplace"))
_OUTPUT = Options("o", "", ("--output",))

CAREFUL_OPTIONS: dict[str, Options] = {
    "sort": Options("o", "kStT", ("--output", "--compress-program")),
    "find": Options(words=("-delete", "-fprint", "-fprint0", "-fprintf", "-fls")),
    "sed": Options("i", "efl", ("--in-place",)),
    "awk": Options(
        "fiElodpDeW",
        "Fv",
        (
            *("--file", "--include", "--exec", "--load", "--source", "--debug", "--profile"),
            *("--dump-variables", "--pretty-print"),
        ),
    ),
    "rg": Options(words=("--pre", "--hostname-bin")),
    "xxd": Options("r", "clso"),
    "tree": Options("oR"),
    "file": Options("Cm", "fFPe", ("--compile", "--magic-file")),
    "date": Options("s", "dfrI", ("--set",)),
    "base64": Options("o", "biw", ("--output",)),
    "shuf": Options("o", "ein", ("--output",)),
    "iconv": Options("o", "ft", ("--output",)),
    "tar": Options(
        "IF",
        "fCTXbgKLNV",
        (
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--rsh-command",
            "--info-script",
            "--new-volume-script",
        ),
    ),
    "zip": Options("T", "bnPtx", ("--unzip-command", "-TT")),
    "rsync": Options("e", "fBTM", ("--rsh", "--rsync-path", "--daemon")),
    "man": Options("PH", "CELmMrRsSep", ("--pager", "--html", "--preprocessor")),
    "curl": Options(
        "oOKTJDc",
        "AbdeEFHmPQrtuUwXyYxz",
        (
            *("--output", "--config", "--upload-file", "--dump-header", "--cookie-jar", "--trace"),
            *("--trace-ascii", "--stderr", "--libcurl", "--etag-save", "--hsts", "--alt-svc"),
            *("--output-dir", "--remote-name", "--remote-name-all", "--engine"),
        ),
    ),
    "wget": Options(
        "OoPea",
        "BTtwQARDIXUl",
        (
            *("--output-document", "--output-file", "--append-output", "--directory-prefix"),
            *("--execute", "--use-askpass", "--config", "--save-cookies", "--warc-file"),
            *("--rejected-log", "--hsts-file"),
        ),
    ),
    "make": Options("fE", "CIjloW", ("--file", "--makefile", "--eval")),
    "mypy": Options(words=("--python-executable", "--install-types")),
    "kubectl": Options(words=("--kubeconfig",)),
    "hostname": Options("Fb", "", ("--file", "--boot")),
    "eslint": Options("o", "cf", ("--output-file", "--rulesdir")),
    "ruff": Options("o", "", ("--output-file",)),
    "cargo": Options(words=("--config",)),
    "go": Options(words=("-exec", "-toolexec", "-vettool", "-overlay", "--exec", "--toolexec")),
    "npm": Options(
        words=("--script-shell", "--git", "--node-options", "--globalconfig", "--userconfig")
    ),
    "node": Options("rep", "", ("--require", "--import", "--eval", "--loader")),
    "pytest": Options(words=("--basetemp", "--pastebin")),
    "printf": Options("v"),
    "test": Options(words=("-v",)),
    "[": Options(words=("-v",)),
    "wait": Options("p"),
    "hash": Options("p"),
    "enable": Options("f"),
    "bind": Options("xf"),
    "complete": Options("CF"),
    "compgen": Options("CFW"),
    "history": Options("warns"),
    "mapfile": Options("C"),
    "readarray": Options("C"),
    "tcpdump": Options("zw", "icr"),
    "nc": Options("ec", "wpsi"),
    "gofmt": Options("wr", "", ("--w",)),
    "gcc": Options("B", "oDILl", ("-wrapper", "-fplugin", "-specs", "--specs", "--config")),
    "ag": _PAGER,
    "ack": _PAGER,
    "bat": _PAGER,
    "yq": Options("i", "", ("--in-place", "--inplace", "--split-exp")),
    "perl": Options("i"),
    "clang-format": _IN_PLACE,
    "xmllint": _OUTPUT,
    "pandoc": Options("oF", "", ("--output", "--filter", "--lua-filter", "--pdf-engine")),
    "openssl": Options(words=("-out", "-keyout", "-writerand", "-config", "-engine", "-provider")),
    "gpg": _OUTPUT,
    "fd": Options("xX", "etdEc", ("--exec", "--exec-batch")),
    # pagers and editors
    "less": Options(
        "oOk",
        "bhjpPtTxyzD",
        ("--log-file", "--LOG-FILE", "--lesskey-file", "--lesskey-src", "--lesskey-content"),
    ),
    "vim": Options("cSsuUwW", "TtVi", ("--cmd", "--log", "--startuptime", "--remote-expr")),
    "nano": Options("sf", "TrYQCoX", ("--speller", "--rcfile")),
    "emacs": Options(
        words=(
            *("-l", "--load", "-f", "--funcall", "--eval", "-eval", "--execute", "-execute"),
            *("-e", "-x", "-script", "--script"),
        )
    ),
    # what is built and checked
    "tox": Options("x", "cefnopr", ("--override",)),
    "nox": Options("f", "ekprst", ("--noxfile",)),
    "cmake": Options("PE", "BCDGSTUA"),
    "ninja": Options("f", "Cdjkltw"),
    "gradle": Options("Ibc", "DPpgx", ("--init-script", "--build-file", "--settings-file")),
    "prettier": Options(words=("--plugin",)),
    "pylint": Options(words=("--init-hook", "--load-plugins", "--output")),
    "flake8": Options(words=("--output-file",)),
    "bandit": Options("o", "cfiklnpstx", ("--output",)),
    "helm": Options(words=("--post-renderer",)),
    "pip": Options(words=("--python", "--log")),
    "latex": Options(
        words=("-shell-escape", "--shell-escape", "-enable-write18", "--enable-write18")
    ),
    "nm": Options(words=("--plugin",)),
    # the system, and what is elsewhere
    "split": Options(words=("--filter",)),
    "journalctl": Options(
        words=(
            *("--vacuum-size", "--vacuum-time", "--vacuum-files", "--rotate", "--flush"),
            *("--relinquish-var", "--setup-keys", "--update-catalog", "--cursor-file"),
        )
    ),
    "nmap": Options(words=("--script", "--resume", "-oN", "-oX", "-oG", "-oA", "-oS")),
    "ssh-keygen": Options("D", "CPNbftOIVnm"),
    "apt": Options("oc", "t", ("--option", "--config-file")),
    "rpm": Options("ED", "", ("--eval", "--define", "--load", "--macros", "--pipe")),
    "svn": Options(
        words=(
            *("--diff-cmd", "--diff3-cmd", "--merge-cmd", "--editor-cmd", "--config-option"),
            "--config-dir",
        )
    ),
    "hg": Options(words=("--config",)),
    "sqlite3": Options(words=("-init", "--init", "-A")),
    "psql": Options("oLf", "cdhpPUvFRT", ("--output", "--log-file", "--file")),
    "mysql": Options(words=("--pager", "--tee", "--init-command")),
}
SAME = {
    **dict.fromkeys(("gawk", "mawk", "nawk"), "awk"),
    **dict.fromkeys(("cc", "c++", "g++", "clang", "clang++", "c99"), "gcc"),
    **dict.fromkeys(("vi", "nvim", "view", "ex", "vimdiff", "gvim"), "vim"),
    **dict.fromkeys(("pdflatex", "xelatex", "lualatex", "tex", "pdftex"), "latex"),
    **dict.fromkeys(("objdump", "ar", "ranlib"), "nm"),
    **dict.fromkeys(("apt-get", "apt-cache"), "apt"),
    "emacsclient": "emacs",
    "gsed": "sed",
    "gmake": "make",
    "pnpm": "npm",
    "pip3": "pip",
    "mariadb": "mysql",
    "fdfind": "fd",
    "batcat": "bat",
    "podman": "docker",
    "red": "ed",
}
# Options that name a file to write, which may be none: the standard output or /dev/null.
TO_FILES = {
    "curl": Options("oD", "", ("--output", "--dump-header")),
    "wget": Options("Oo", "", ("--output-document", "--output-file")),
}
