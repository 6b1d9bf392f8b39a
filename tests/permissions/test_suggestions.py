"""What an "always" would store: the narrowest useful rule for each part, or none."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

ALLOW, ASK = RuleDecision.ALLOW, RuleDecision.ASK


@pytest.fixture
def context(tmp_path):
    return AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace(tmp_path))


def remembers(tool, data, context, *rules):
    explanation = PermissionManager(rules, read_only=False).explain(tool, data, context)
    return [str(rule) for rule in explanation.remembers]


def proposed(command, context, *rules):
    found = remembers("Bash", {"command": command}, context, *rules)
    return [each.removeprefix("allow Bash(").removesuffix(")") for each in found]


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("npm test -- --watch=false", ["npm test:*"]),
        ("cd api && pytest -q tests/x.py 2>&1 | tail -20", ["cd api", "pytest:*", "tail:*"]),
        ("git -C sub log --oneline", ["git -C sub log --oneline"]),
        ("docker compose up -d db", ["docker compose up:*"]),
        ("python scripts/gen.py --all", ["python scripts/gen.py --all"]),
        ("FOO=1 make test", ["FOO=1 make test"]),
        ("curl -s https://api.x/y | jq .", ["jq:*"]),
        ("echo $(date) > log.txt", []),
    ],
)
def test_usual_commands_give_the_rules_that_a_person_would_write(context, command, rules):
    assert proposed(command, context) == rules


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git log --oneline", "git log:*"),
        ("git diff HEAD~1 -- '*.py'", "git diff:*"),
        ("git stash list", "git stash list"),
        ("git branch -a", "git branch -a"),
        ("git log --merges", "git log:*"),
        ("npm run lint", "npm run lint:*"),
        ("gh pr view 12", "gh pr view:*"),
        ("cargo test -p a", "cargo test:*"),
        ("go test ./...", "go test:*"),
        ("python -m pytest -q", "python -m pytest:*"),
        ("python3.11 -m mypy .", "python3.11 -m mypy:*"),
        ("uv run pytest -q", "uv run pytest:*"),
        ("uv run ruff check .", "uv run ruff check:*"),
        ("poetry run mytool build", "poetry run mytool build"),
        ("ls *.py", "ls:*"),
        ("timeout 5 pytest -q", "pytest:*"),
        ("make test", "make test"),
        ("make", "make"),
        ("./run.sh a", "./run.sh a"),
        ("go run ./cmd/a", "go run ./cmd/a"),
        ("cargo run --release", "cargo run --release"),
        ("uv run python tools/a.py", "uv run python tools/a.py"),
        ("uv run make test", "uv run make test"),
        ("node build.js", "node build.js"),
        ("git gc --auto", "git gc --auto"),
        ("git checkout -- a", "git checkout -- a"),
        ("/bin/rm x", "/bin/rm x"),
        ("tar czf a.tgz src", "tar czf a.tgz src"),
        ("frob 'a b' x", "frob 'a b' x"),
    ],
)
def test_verbs_that_say_what_is_done_give_a_prefix_and_other_words_an_exact_rule(
    context, command, rule
):
    assert proposed(command, context) == [rule]


TOO_BROAD = [
    # interpreters, also behind what starts them
    *(
        "python",
        "python -c 1",
        "python3 -",
        "python -m",
        "python -m timeit x",
        "python -m http.server",
    ),
    *(
        "python3.11 -c 1",
        "/usr/bin/python3 -c 1",
        "node -e 1",
        "perl -e 1",
        "ruby -e 1",
        "deno eval 1",
    ),
    *("bash", "bash a.sh", "sh -c ls", "zsh a", "osascript a", "pwsh -c 1", "pypy3 -c 1"),
    *("uv run python", "uv run python -c 1", "poetry run python -c 1", "uv run bash a.sh"),
    *("uv run", "uv run --with x python", "bundle exec ruby -e 1", "pdm run sh"),
    # what runs programs elsewhere, or others' programs
    *("docker run x", "docker exec a ls", "docker compose exec a ls", "docker compose run a ls"),
    *("docker -H tcp://x run a", "kubectl exec a -- ls", "npm exec x", "npx x", "pnpm dlx x"),
    *("yarn dlx x", "bunx x", "uvx x", "ssh h ls", "gcloud compute ssh a", "az vm run-command a"),
    *("podman run a", "kubectl run a", "git submodule foreach ls", "git bisect run ls"),
    # installers
    *(
        "npm install x",
        "npm i x",
        "pnpm add x",
        "yarn add x",
        "uv pip install x",
        "uv add x",
    ),
    *("uv tool install x", "cargo install x", "cargo add x", "brew install x", "go install x"),
    *(
        "go get x",
        "pip install x",
        "pip3 install x",
        "apt install x",
        "apt-get install x",
        "gem install x",
    ),
    *("gh extension install x", "poetry add x", "pipx run x", "python -m pip install x"),
    # what removes, overwrites, fetches, publishes or stops
    *(
        "rm ../x",
        "/bin/rm ../x",
        "mv a ~/b",
        "dd of=/dev/sda",
        "tar -xf a -C /srv",
        "ln -s /srv/a b",
        "tee /tmp/a",
        "chmod +x /srv/a",
        "find . -name a",
        "crontab a",
    ),
    *("git -C a clean", "git -C a clone ssh://b", "git pull https://a.test/b", "terraform plan"),
    *("git clean -fd", "git reset --hard", "git rm a", "terraform apply", "terraform destroy"),
    *(
        "aws s3 rm s3://a",
        "aws ec2 terminate-instances",
        "kubectl delete pod a",
        "kubectl apply -f a",
    ),
    *(
        "gh api x",
        "gh repo delete a",
        "npm publish",
        "cargo publish",
        "go env -w A=b",
        "npm audit fix",
        "terraform init",
        "helm upgrade a b",
        "brew upgrade",
    ),
    *(
        "curl https://a.test",
        "wget x",
        "rsync a b",
        "scp a b",
        "kill 1",
        "systemctl stop a",
        "reboot",
    ),
    # a program without its verb, and wrappers
    *("git", "docker", "npm", "sudo ls", "env", "env -i sh", "xargs ls", "nohup", "eval ls", ". a"),
    *("find . -exec ls {} +", "bash -c 'ls; pytest'", "watch ls", "nice rm *"),
    # what can't be told beforehand
    *("$X", "frob $X", "ls $X", "git log $(cat a)", "ls 'a", "A=1; ls", "f() { ls; }"),
    *("ls > /a", "ls 2>> ~/a", "sort -o a b", "git log --output=a", "ls \u202e"),
]


@pytest.mark.parametrize("command", TOO_BROAD)
def test_nothing_is_proposed_for_what_no_rule_is_narrow_enough(context, command):
    assert proposed(command, context) == []


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("git add . && kill 1", ["git add:*"]),
        ("pytest; curl https://a.test | head", ["pytest:*", "head:*"]),
        ("ls && ls", ["ls:*"]),
        ("pytest > /out.txt", []),
        ("pytest; $X", []),
        ("pytest; sudo ls", []),
        ("A=1; pytest", []),
    ],
)
def test_a_part_without_a_rule_leaves_the_others_theirs_unless_it_can_not_be_told(
    context, command, rules
):
    assert proposed(command, context) == rules


def test_parts_that_are_allowed_need_no_rule(context):
    allowed = PermissionRule.allow_command("ls")
    assert proposed("ls; ls -l", context, allowed) == []
    assert proposed("ls; pytest", context, allowed) == ["pytest:*"]


def test_nothing_is_proposed_that_another_rule_would_still_stop(context):
    asking = PermissionRule.ask_for_command("git push")
    assert proposed("git push", context, asking) == []
    assert proposed("git add . && git push", context, asking) == []
    doubtful = PermissionRule.deny_command("git push --force")
    assert proposed("git push $X", context, doubtful) == []
    assert proposed("git push", context, doubtful) == ["git push"]
    assert remembers("T", {}, context, PermissionRule.ask_for_tool("T")) == []


def test_files_give_their_folder_hosts_and_tools_themselves(context):
    assert remembers("Edit", {"file_path": "src/api/a.py"}, context) == ["allow Edit(src/api/**)"]
    assert remembers("Edit", {"file_path": "a.py"}, context) == ["allow Edit(a.py)"]
    assert remembers("Read", {"file_path": "/srv/x/y"}, context) == ["allow Read(/srv/x/y)"]
    assert remembers("Read", {"file_path": "a*b"}, context) == []
    url = {"url": "https://a.test/x"}
    assert remembers("WebFetch", url, context) == ["allow WebFetch(domain:a.test)"]
    assert remembers("WebFetch", {"url": "https://u@a.test/x"}, context) == []
    assert remembers("Unheard", {}, context) == ["allow Unheard"]


def test_a_hidden_folder_is_never_opened_as_a_whole(context):
    for name in (".git/config", ".github/workflows/ci.yml", "a/.b/c/d", "docs/AGENTS.md"):
        assert remembers("Edit", {"file_path": name}, context) == [f"allow Edit({name})"]


def test_its_own_rules_are_never_offered(context):
    assert remembers("Edit", {"file_path": ".greenroom/permissions.json"}, context) == []


def test_a_folder_that_leads_elsewhere_is_not_offered(context, tmp_path):
    (tmp_path / "src").symlink_to("/srv")
    assert remembers("Edit", {"file_path": "src/a.py"}, context) == []


def test_a_protected_file_is_offered_by_its_name_and_then_allowed(context):
    manager = PermissionManager()
    for data in ({"file_path": ".envrc"}, {"file_path": ".husky/pre-push"}):
        found = manager.explain("Write", data, context)
        manager.remember(found, ALLOW, "always", context)
        assert manager.check("Write", data, context) is ALLOW
    assert manager.check("Write", {"file_path": ".husky/pre-commit"}, context) is ASK


WORDS = st.sampled_from(
    [
        "git",
        "npm",
        "uv",
        "run",
        "python",
        "-m",
        "docker",
        "compose",
        "test",
        "install",
        "log",
        "up",
        "pytest",
        "ls",
        "rm",
        "cd",
        "src",
        "-x",
        "a=1",
        "jq",
        "sort",
        "tail",
        "make",
        "cargo",
        "exec",
        "curl",
        "'./a'",
        "'b",
        "c'",
        ">",
        "<",
        "|",
        "&&",
        ";",
        "*",
        "$X",
        "$(ls)",
        "timeout",
        "5",
    ]
)


@given(st.lists(WORDS, min_size=1, max_size=8).map(" ".join))
def test_what_is_proposed_allows_the_part_it_is_proposed_for(command):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
    manager = PermissionManager()
    found = manager.explain("Bash", {"command": command}, context)
    manager.add_rules(found.remembers)
    after = manager.explain("Bash", {"command": command}, context)
    allowed = {part.rule_id for part in after.parts if part.decision is ALLOW}
    assert {rule.id for rule in found.remembers} <= allowed
    assert set(after.remembers).isdisjoint(found.remembers)
