"""A day of a Python and one of a JavaScript developer, as models write their commands.

The mark says whether a command only reads, and so runs unasked; or writes, runs a program of the
project, installs or sends, and so is asked about at first. What reads but by a program that not
everybody knows may be either.
"""

import os
import subprocess
from pathlib import Path

READS, ASKS, EITHER = "reads", "asks", "either"

PYTHON = (
    (READS, "ls"),
    (READS, "git status"),
    (READS, "cat README.md | head -50"),
    (READS, "cat pyproject.toml"),
    (READS, "cd src && ls"),
    (READS, "ls -la src/ | head"),
    (READS, "find . -name '*.py' -not -path './.venv/*' | head -50"),
    (READS, "grep -rn 'def parse' src --include='*.py'"),
    (READS, 'rg -n "TODO|FIXME" src tests'),
    (READS, "wc -l src/project/*.py tests/*.py"),
    (EITHER, "sed -n '1,40p' src/project/app.py"),
    (READS, "head -n 30 src/project/app.py && tail -n 20 tests/test_a.py"),
    (READS, "git log --oneline -5"),
    (READS, "git diff --stat"),
    (READS, "git diff HEAD~1 -- src/project/app.py"),
    (READS, "git show --stat HEAD"),
    (READS, "git branch -a"),
    (READS, "which python && ls .venv/bin | grep -i pytest"),
    (READS, "grep -c 'def test_' tests/test_a.py tests/test_b.py | sort -t: -k2 -rn"),
    (READS, "test -f .env && echo exists || echo missing"),
    (READS, "pwd; ls -d */"),
    (READS, "du -sh . && tree -L 2"),
    (ASKS, 'for f in src/project/*.py; do echo "== $f"; head -5 "$f"; done'),
    (ASKS, "source .venv/bin/activate && pytest"),
    (ASKS, "PYTHONPATH=src pytest -q"),
    (ASKS, ".venv/bin/pytest -x tests/test_a.py"),
    (ASKS, "python -m pytest tests/test_a.py -q 2>&1 | tail -20"),
    (ASKS, "pytest > out.log 2>&1; tail -40 out.log"),
    (ASKS, "ruff check . && ruff format --check ."),
    (ASKS, "mypy src"),
    (ASKS, ".venv/bin/python -m mypy src/project --strict"),
    (ASKS, "pip install -e '.[dev]'"),
    (ASKS, "python scripts/gen.py --all"),
    (ASKS, "python -c 'import project; print(project.__version__)'"),
    (ASKS, "mkdir -p tests/unit && touch tests/unit/__init__.py"),
    (ASKS, "cp src/project/app.py src/project/app_old.py"),
    (ASKS, "git mv src/project/app_old.py src/project/legacy.py"),
    (ASKS, "sed -i 's/foo/bar/g' src/project/app.py"),
    (ASKS, "find . -name '__pycache__' -type d | xargs rm -rf"),
    (ASKS, "rm -rf build dist"),
    (ASKS, 'git add -A && git commit -m "Parse dates with time zones"'),
    (ASKS, "git checkout -b fix/dates"),
    (ASKS, "git push -u origin fix/dates"),
)

JAVASCRIPT = (
    (READS, "ls -la"),
    (READS, "cat package.json"),
    (READS, "jq .scripts package.json"),
    (READS, "cat package.json | jq -r '.dependencies | keys[]'"),
    (READS, "find web -type f -name '*.ts' | wc -l"),
    (READS, "rg -l useState web --glob '*.tsx'"),
    (READS, 'grep -rn "console.log" web | head -20'),
    (READS, "cd web && ls -la components"),
    (READS, "head -80 web/index.ts"),
    (READS, "tail -n +20 web/index.ts | head -n 40"),
    (READS, "git status --short"),
    (READS, "git diff web/index.ts"),
    (READS, "git diff --cached --name-only"),
    (READS, "git log -3 --stat"),
    (READS, "git log --oneline main..HEAD | wc -l"),
    (READS, "git show HEAD:package.json | head -20"),
    (READS, "git branch --show-current"),
    (READS, "ls node_modules/.bin | sort | head -20"),
    (READS, "cat tsconfig.json .eslintrc.json 2>/dev/null"),
    (READS, "diff web/index.ts web/main.ts"),
    (READS, "file web/logo.png && stat web/logo.png"),
    (READS, "cut -d, -f1 data.csv | sort | uniq -c | sort -rn | head"),
    (EITHER, "rg -l 'from \"react\"' web | xargs wc -l"),
    (EITHER, "node --version && npm --version"),
    (ASKS, "npm test"),
    (ASKS, "npm run lint"),
    (ASKS, "npm run build 2>&1 | tail -30"),
    (ASKS, "CI=1 npm test -- --watch=false"),
    (ASKS, "npx tsc --noEmit"),
    (ASKS, "npx eslint web --fix"),
    (ASKS, "npx vitest run web/index.test.ts > test.log 2>&1"),
    (ASKS, "./node_modules/.bin/prettier --check web"),
    (ASKS, "node scripts/seed.js"),
    (ASKS, "NODE_ENV=production node server.js"),
    (ASKS, "npm install --save-dev vitest"),
    (ASKS, "npm ci"),
    (ASKS, "mv web/main.ts web/entry.ts"),
    (ASKS, "rm -rf node_modules/.cache dist"),
    (ASKS, "echo 'dist/' >> .gitignore"),
    (ASKS, "curl -s localhost:8000/health"),
    (ASKS, "docker compose ps"),
    (ASKS, "git stash && git pull --rebase && git stash pop"),
    (
        ASKS,
        "git add web && git commit -m \"$(cat <<'EOF'\nRead the port from the environment\n\n"
        '- and say so in the README\nEOF\n)"',
    ),
)

COMMANDS = (*PYTHON, *JAVASCRIPT)

FILES = {
    "README.md": "# Project\n",
    "pyproject.toml": '[project]\nname = "project"\n',
    "src/project/__init__.py": '__version__ = "1"\n',
    "src/project/app.py": "def parse(text):\n    return text\n",
    "tests/test_a.py": "def test_a():\n    pass\n",
    "tests/test_b.py": "def test_b():\n    pass\n",
    "scripts/gen.py": "print()\n",
    "scripts/seed.js": "console.log()\n",
    "package.json": '{"scripts": {"test": "vitest"}, "dependencies": {"react": "1"}}\n',
    "tsconfig.json": "{}\n",
    "server.js": "\n",
    "web/index.ts": "export {}\n",
    "web/main.ts": "export {}\n",
    "web/components/App.tsx": 'import { useState } from "react"\n',
    "data.csv": "a,1\n",
    ".gitignore": ".venv/\nnode_modules/\n",
    ".venv/pyvenv.cfg": "home = /usr/bin\n",
    ".venv/bin/activate": "VIRTUAL_ENV=x\n",
}
PROGRAMS = (
    *(f".venv/bin/{name}" for name in ("python", "pytest", "mypy", "ruff")),
    *(f"node_modules/.bin/{name}" for name in ("tsc", "eslint", "vitest", "prettier")),
)


def build(folder):
    """Furnish a folder with a repository of both kinds, as a developer has it."""
    folder = Path(folder)
    for name, text in (*FILES.items(), *((name, "#!/bin/sh\n") for name in PROGRAMS)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name in PROGRAMS else 0o644)
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "Start"),
    ):
        subprocess.run(["git", *words], cwd=folder, env=environment, check=True)
    return folder
