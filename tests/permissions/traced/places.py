"""Commands about files: denied ones, ones outside of the workspace, and ones that are protected.

`places.txt` has commands that reach them plainly; paths in them are written in many other ways.
"""

from greenroom.permissions import PermissionRule
from tests.permissions.tables import read_table
from tests.permissions.traced.judging import DENY_PWN, DENY_SECRETS, READ_ONLY, Case, Rules

WORDS = read_table("traced/words")
BROAD = Rules(
    "many programs and all paths, but secrets",
    (
        PermissionRule.allow_command(*WORDS["broadly allowed"], "sed -i", "sort -o"),
        PermissionRule.allow_path("**"),
        DENY_SECRETS,
        DENY_PWN,
    ),
    None,
    "unprotected",
    leaves=True,
)
TABLE = read_table("traced/places")

# Paths that the table names, and other ways to write each; the second halves stand for any of them.
SPELLINGS = {
    "secrets/key": (
        "vault/key",
        "s*/key",
        "{secrets,x}/key",
        "secrets/ke?",
        "se[c]rets/key",
        "s*/k*",
    ),
    "../outside": (
        "away",
        "up/outside",
        "~/outside",
        "../out*",
        "one/link",
        "$HOME/outside",
        "up/*e",
    ),
    ".git/hooks": (
        "tools",
        ".g*/hooks",
        ".git/h??ks",
        "{.git/hooks,x}",
        "src/../.git/hooks",
        "t[o]ols",
    ),
    ".envrc": (".env*", "{.envrc,x}", ".e?vrc", "src/../.envrc", ".[e]nvrc"),
    ".env": ("notes.txt", "conf/.env", ".e*v", "{.env,x}", "conf/.*", "n*.txt", ".[e]nv"),
    "away": ("one/link", "aw*", "up/outside", "./away", "a[w]ay", "{away,a}", "one/l*"),
}


def generate(choose):
    """Make up one command."""
    kind = choose.choice(tuple(TABLE))
    text = choose.choice(TABLE[kind])
    named = [name for name in SPELLINGS if name in text]
    if named and choose.random() < 0.6:
        name = choose.choice(named)
        others = (*SPELLINGS[name], *(f"{before}{name}" for before in WORDS["folders"]))
        text = text.replace(name, choose.choice(others), 1)
    if choose.random() < 0.25:
        text = choose.choice(WORDS["frames"]).format(text)
    is_broad = kind != "prying" and choose.random() < 0.8
    return Case("places", BROAD if is_broad else READ_ONLY, text)
