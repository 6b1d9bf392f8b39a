"""Commands with every verb of git that only reads, in hostile repositories."""

import shlex

from tests.git.repositories import READING, SCRIPTS, Ground
from tests.permissions.traced.judging import READ_ONLY, Case


def build(base):
    """Make the repositories; return their work trees by the names of the repositories."""
    ground = Ground(base / "home" / "repositories")
    return {name: ground.make(name).work for name in SCRIPTS}


def generate(choose):
    """Choose a command and a repository."""
    text = shlex.join(choose.choice(READING))
    return Case("repositories", READ_ONLY, text, choose.choice(tuple(SCRIPTS)))
