"""What an "always" would store for each part: its exact words, a prefix if chosen, or none."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

ALLOW, ASK, DENY = RuleDecision.ALLOW, RuleDecision.ASK, RuleDecision.DENY

pytestmark = pytest.mark.usefixtures("everyday_programs")


@pytest.fixture
def context(tmp_path):
    return AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace(tmp_path))


def explained(tool, data, context, *rules):
    return PermissionManager(rules, read_only=False).explain(tool, data, context)


def remembers(tool, data, context, *rules):
    return [str(rule) for rule in explained(tool, data, context, *rules).remembers]


def proposed(command, context, *rules):
    """What an always would store: the exact words, and the same with prefixes."""
    found = explained("Bash", {"command": command}, context, *rules)
    return short(found.remembers), short(found.prefixes)


def short(rules):
    return [str(each).removeprefix("allow Bash(").removesuffix(")") for each in rules]


@pytest.mark.parametrize(
    ("command", "exact", "prefixes"),
    [
        ("npm test -- --watch=false", ["npm test -- --watch=false"], ["npm test:*"]),
        (
            "cd api && pytest -q tests/x.py 2>&1 | tail -20",
            ["cd api", "pytest -q tests/x.py", "tail -20"],
            ["cd api", "pytest:*", "tail:*"],
        ),
        ("git -C sub log --oneline", ["git -C sub log --oneline"], []),
        ("docker compose up -d db", ["docker compose up -d db"], ["docker compose up:*"]),
        ("python scripts/gen.py --all", ["python scripts/gen.py --all"], []),
        ("FOO=1 make test", ["FOO=1 make test"], []),
        ("CI=1 npm test -- -u", ["CI=1 npm test -- -u"], ["CI=1 npm test:*"]),
        (
            "curl -s https://a.x/y | jq .",
            ["curl -s https://a.x/y", "jq ."],
            ["curl -s https://a.x/y", "jq:*"],
        ),
        ("pytest -q > out.log", ["pytest -q, > out.log"], ["pytest:*, > out.log"]),
        ("echo $(date) > log.txt", [], []),
    ],
)
def test_a_person_is_offered_the_exact_words_and_where_there_is_one_a_prefix(
    context, command, exact, prefixes
):
    assert proposed(command, context) == (exact, prefixes)


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        ("git log --oneline", "git log"),
        ("git diff HEAD~1 -- '*.py'", "git diff"),
        ("git stash list", "git stash list"),
        ("npm run lint", "npm run lint"),
        ("npm run test:e2e -- -u", "npm run test:e2e"),
        ("gh pr view 12", "gh pr view"),
        ("cargo test -p a", "cargo test"),
        ("go test ./...", "go test"),
        ("go env GOPATH", "go env"),
        ("kubectl get pods", "kubectl get"),
        ("kubectl rollout status deploy/web", "kubectl rollout status"),
        ("helm list", "helm list"),
        ("terraform plan", "terraform plan"),
        ("aws ec2 describe-instances --region x", "aws ec2 describe-instances"),
        ("gcloud compute instances list", "gcloud compute instances list"),
        ("python -m pytest -q", "python -m pytest"),
        ("python3.11 -m mypy .", "python3.11 -m mypy"),
        ("uv run pytest -q", "uv run pytest"),
        ("uv run ruff check .", "uv run ruff check"),
        ("poetry run mytool build", "poetry run mytool build"),
        ("ls *.py", "ls"),
        ("timeout 5 pytest -q", "pytest"),
        ("ls | xargs wc -l", "xargs wc"),
        ("ls | xargs -0 grep -n x", "xargs -0 grep"),
        ("frob serve 'a b' x", "frob serve"),
        ("frob list-all", "frob list-all"),
        ("frob db list", "frob db list"),
        ("./frob check", "./frob check"),
    ],
)
def test_words_that_say_what_is_done_make_a_prefix(context, command, prefix):
    assert proposed(command, context)[1][-1] == f"{prefix}:*"


EXACT_ONLY = [
    # interpreters and shells, also behind what starts them; texts
    *("python a.py", "python -c 1", "node -e 1", "node build.js", "perl -e 1", "ruby a.rb"),
    *("bash a.sh", "sh -c ls", "bash -c 'ls; pytest'", "python -m http.server", "frob -c ls"),
    *("uv run python a.py", "uv run python -c 1", "poetry run bash a.sh", "uv run --with x frob"),
    # wrappers, and what runs programs elsewhere
    *("sudo ls", "sudo apt update", "watch ls", "ssh h ls"),
    *("docker run x", "docker exec a ls", "kubectl exec a -- ls", "npm exec x", "npx x"),
    *("cargo run", "go run ./cmd/a", "uv run make test", "git bisect run ls"),
    # what writes where it is told
    *("cp a b", "mv a b", "rm -r build", "mkdir src", "touch one.txt", "tee a", "sed -i p a"),
    *("tar czf a.tgz src", "curl -I https://a.test", "sort -o a b", "git log --output=a"),
    *("venv check", "python -m venv build"),
    *("find . -name a -delete", "find . -name a -exec rm {} +", "/bin/rm x"),
    # what installs, publishes or destroys; several tasks
    *("npm install x", "npm ci", "pip install x", "cargo add x", "go get x", "apt install x"),
    *(
        "git push",
        "git push --force",
        "git clean -fd",
        "git reset --hard",
        "git pull",
        "git apply a",
    ),
    *(
        "terraform apply",
        "kubectl delete pod a",
        "helm upgrade a b",
        "npm publish",
        "gh repo delete a",
    ),
    *("npm run deploy", "npm run db:reset", "frob push", "frob db reset", "deploy now", "frob i x"),
    *("make test", "gradle test", "rake db", "psql db", "kill 1", "git", "docker", "make", "frob"),
    # no verb
    *("frob a.txt", "frob 'a b'", "frob --x serve", "frob 7", "frob Serve", "git branch -a"),
]


@pytest.mark.parametrize("command", EXACT_ONLY)
def test_what_is_dangerous_with_other_words_is_only_offered_with_these(context, command):
    exact, prefixes = proposed(command, context)
    assert (len(exact), prefixes) == (1, [])
    assert not exact[0].endswith(":*")


def test_a_word_is_no_verb_if_it_names_a_file(context, tmp_path):
    assert proposed("frob notes", context)[1] == ["frob notes:*"]
    (tmp_path / "notes").touch()
    assert proposed("frob notes", context)[1] == []


UNSAID = [
    # a program that runs its input, or does more than its words say
    *("python", "python3 -", "python3 - <<< 'print()'", "node", "uv run python", "cat a | python"),
    *("python -m", "python /dev/stdin", "python3 -u -", "python -m code", "bash", "bash -s"),
    *("eval ls", ". a", "source a.sh", "trap ls EXIT", "hash -p /a ls", "alias ls=pwd"),
    *(
        "ls | xargs rm",
        "ls | xargs sh -c ls",
        "ls | xargs sort",
        "ls | sudo xargs wc",
        "ls | parallel wc",
    ),
    # files outside of the workspace, and the workspace as a whole
    *("rm ../x", "/bin/rm ../x", "mv a ~/b", "dd of=/dev/sda", "tar -xf a -C /srv", "rm -rf ."),
    *("ln -s /srv/a b", "tee /tmp/a", "chmod +x /srv/a", "sort -o /srv/a b", "cp -r . /srv"),
    *("find / -name a -delete", "find .. -exec rm {} +", "sudo rm /srv/a", "curl -o /tmp/a b.test"),
    *(
        "bash -c 'rm ../x'",
        "bash -c 'ls > /srv/a'",
        "ls > /a",
        "ls 2>> ~/a",
        "python -m venv /srv/a",
    ),
    # settings that decide what runs, and Greenroom's own rules
    *("PATH=. pytest", "export PATH=.", "declare -x LD_PRELOAD=a", "env PATH=. ls", "A=1; ls"),
    *("rm .greenroom/permissions.json", "frob .greenroom/permissions.json"),
    # what can't be told beforehand
    *("$X", "frob $X", "ls $X", "git log $(cat a)", "ls 'a", "f() { ls; }", "ls & pwd"),
    "ls \u202e",
]


@pytest.mark.parametrize("command", UNSAID)
def test_nothing_is_proposed_for_what_words_do_not_bound(context, command):
    exact, prefixes = proposed(command, context)
    words = command.rpartition("| ")[2].partition(" ")[0]
    assert not [each for each in (*exact, *prefixes) if each.startswith(words)]


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("git add . && python", ["git add ."]),
        ("pytest; rm ../x | head", ["pytest", "head"]),
        ("ls && ls", ["ls"]),
        ("pytest > /out.txt", []),
        ("pytest; $X", []),
        ("pytest; env A=1 ls", []),
        ("A=1; pytest", []),
    ],
)
def test_a_part_without_a_rule_leaves_the_others_theirs_unless_it_can_not_be_told(
    context, command, rules
):
    assert proposed(command, context)[0] == rules


def test_parts_that_are_allowed_need_no_rule(context):
    allowed = PermissionRule.allow_command("ls")
    assert proposed("ls; ls -l", context, allowed) == ([], [])
    assert proposed("ls; pytest", context, allowed) == (["pytest"], ["pytest:*"])


def test_nothing_is_proposed_that_another_rule_would_still_stop(context):
    asking = PermissionRule.ask_for_command("git push")
    assert proposed("git push", context, asking) == ([], [])
    assert proposed("git add . && git push", context, asking) == ([], [])
    doubtful = PermissionRule.deny_command("git push --force")
    assert proposed("git push $X", context, doubtful) == ([], [])
    assert proposed("git push", context, doubtful) == (["git push"], [])
    assert proposed("ls | xargs wc", context, PermissionRule.deny_path("a")) == ([], [])
    assert remembers("T", {}, context, PermissionRule.ask_for_tool("T")) == []


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git push -f origin main", "git push:*"),
        ("npm install x", "npm install:*"),
        ("pytest -x", "pytest:*"),
        ("kubectl delete pod x", "kubectl delete:*"),
        ("gh repo delete a", "gh repo delete:*"),
        ("frob serve x", "frob serve:*"),
        ("frob push x", "frob push x"),
        ("rm -r build", "rm -r build"),
        ("rm ../x", "rm ../x"),
    ],
)
def test_a_never_is_about_the_verb_and_else_about_the_words(context, command, rule):
    found = explained("Bash", {"command": command}, context)
    assert [str(each) for each in found.forbids] == [f"deny Bash({rule})"]


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


@given(st.lists(WORDS, min_size=1, max_size=8).map(" ".join), st.booleans())
def test_what_is_proposed_allows_the_part_it_is_proposed_for(command, prefix):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
    manager = PermissionManager()
    found = manager.explain("Bash", {"command": command}, context)
    rules = (prefix and found.prefixes) or found.remembers
    manager.add_rules(rules)
    after = manager.explain("Bash", {"command": command}, context)
    allowed = {part.rule_id for part in after.parts if part.decision is ALLOW}
    assert {rule.id for rule in rules} <= allowed
    assert set(after.remembers).isdisjoint(found.remembers)


@pytest.mark.parametrize("lifetime", ["session", "project", "always"])
def test_the_person_chooses_between_exact_words_and_a_prefix(context, lifetime):
    for prefix, decision in ((False, ASK), (True, ALLOW)):
        manager = PermissionManager()
        found = manager.explain("Bash", {"command": "npm test -- -u"}, context)
        rules = manager.remember(found, ALLOW, lifetime, context, prefix=prefix)
        assert short(rules) == [("npm test:*" if prefix else "npm test -- -u")]
        assert manager.check("Bash", {"command": "npm test -- -u"}, context) is ALLOW
        assert manager.check("Bash", {"command": "npm test a"}, context) is decision


def test_without_a_prefix_the_answer_keeps_the_exact_words_and_a_denial_knows_none(context):
    manager = PermissionManager()
    found = manager.explain("Bash", {"command": "make test"}, context)
    assert short(manager.remember(found, ALLOW, "always", context, prefix=True)) == ["make test"]
    found = manager.explain("Bash", {"command": "git push a"}, context)
    (rule,) = manager.remember(found, DENY, "always", context, prefix=True)
    assert str(rule) == "deny Bash(git push:*)"
