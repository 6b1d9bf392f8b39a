"""Commands composed from the techniques of published bypasses, a row of techniques at a time.

`{}` in a template is the command that it hides, or carries as harmless text. The same seed gives
the same command.
"""

import random
import re
from dataclasses import dataclass
from functools import cache

from greenroom.permissions import PermissionRule

# What may run: each is a program with its first words. Everything else that runs is a bypass.
ALLOWED = (
    *("good", "cat", "git status", "echo", "true", "sort", "xargs", "find", "cd", "test", "[", ":"),
    *("sed -n", "awk", "printf", "head", "wc", "read", "bash -c", "let", "declare", "unset", "seq"),
    *("eval", "sleep", "uniq", "grep", "npx x"),
)
DENIED = ("rm -rf", "git push")
RULES = (PermissionRule.allow_command(*ALLOWED), PermissionRule.deny_command(*DENIED))

HARMLESS = (
    *("good", "good a", "good -x 'a b'", "git status", "git status -s", "cat f", "echo a", "true"),
    *("good 'a;b'", 'good "a|b"', "g''ood", "good \\; evil", "sort f", "head -n 1 f", "test -f f"),
    *("good '$(evil)'", "good '`evil`'", "good > /dev/null", "good 2>&1", "[ -f f ]", "wc -l < f"),
)
HARMFUL = (
    *("evil", "evil a", "rm -rf x", "git push", "e'vi'l", "ev\\il", "./bad/good", "/bin/rm -rf x"),
    *("EVIL", "git  push", '"evil"', "$'evil'", "evil 'a b'", "evil > /dev/null", "rm -r -f x"),
)

# What an edit may put into a command.
PIECES = (
    *"\\'\"`$(){};&|<>#\n \t!*?[]=~-:",
    *(
        "$(",
        "$((",
        "))",
        "<<E\n",
        "\nE\n",
        "; evil a",
        "evil a",
        "'evil a'",
        "&&",
        "||",
        "${x:-",
        "}",
    ),
    *(
        "<(",
        ">(",
        "{a,",
        "in ",
        "do ",
        "done",
        "then ",
        "fi",
        "if ",
        "for x in ",
        "case x in ",
        "esac",
    ),
    *(";;", "eval ", "bash -c ", "xargs ", "\\\n", "#\\\n", "$'", "\\'", "[[ ", " ]]", "(( ", "x="),
    *("-eq", "<<<", "2>&1", ">/dev/null", "echo ", "good ", "* ", "-- ", "- "),
)
_UNPRINTABLE = re.compile(r"[\0\ud800-\udfff]")

TECHNIQUES = {
    "chaining": (
        *("good; {}", "good && {}", "good || {}", "good | {}", "good & {}", "good\n{}", "{}; good"),
        *("good |& {}", "! {}", "( {} )", "{{ {}; }}", "if {}; then good; fi", "{} &", "{} | cat"),
        *("if good; then {}; else {}; fi", "for i in 1 2; do {}; done", "while {}; do break; done"),
        *(
            "until ! {}; do break; done",
            "case a in a) {};; *) good;; esac",
            "good &&\n{}",
            "(({}))",
        ),
        *("for f in *; do {}; done", "if ! good; then good; elif {}; then good; fi", "{}\n\n{}"),
    ),
    "many sub-commands": (
        "true; " * 60 + "{}",
        ": && " * 52 + "{}",
        "true | " * 51 + "{}",
        "\n".join([":"] * 60) + "\n{}",
    ),
    "line continuation": (
        *("good \\\n a; {}", "good \\\n&& {}", "goo\\\nd; {}", "{} \\\n", "good && \\\n {}"),
        *("ev\\\nil", "git pu\\\nsh", "rm -r\\\nf x", "good a\\\n b", "good 'a\\\nb'; {}"),
    ),
    "comment and backslash": (
        *(
            "good #\\\n{}",
            "good # x\\\n{}",
            "good # x\n{}",
            "# {}\ngood",
            "good '#' ; {}",
            "good #{}",
        ),
        *("good a#b; {}", "good \\# x; {}", "{} # good", "good ; #\n {}", "#\n{}", 'good "#" # {}'),
    ),
    "substitution": (
        *("good $({})", "good `{}`", 'good "$({})"', 'good "`{}`"', "good <({})", "cat <({}) f"),
        *("good $(good $({}))", "good ${{x:-$({})}}", 'good "${{x:-`{}`}}"', "good ${{x#$({})}}"),
        *("good <<E\n$({})\nE", "good <<'E'\n$({})\nE", "good <<-E\n\t`{}`\n\tE", "cat <<< $({})"),
        *(
            "cat <<A <<B\n{}\nA\n$({})\nB",
            "for i in $({}); do good; done",
            "good $(cat <<E\n{}\nE\n)",
        ),
        *(
            "case $({}) in *) good;; esac",
            "good >($({}))",
            "[[ -n $({}) ]]",
            "good $(< f)",
            "$({})",
        ),
    ),
    "arithmetic subscripts": (
        *(
            "good $(( $({}) + 1 ))",
            "good $((a[$({})]))",
            "for x in 'a[$({})]'; do good $((x)); done",
        ),
        *("for x in 'a[$({})]'; do good $(($x)); done", "good $[ a[$({})] ]", "(( a[$({})] ))"),
        *("let 'a[$({})]=1'", "test -v 'a[$({})]'", "read 'a[$({})]' < f", "declare 'a[$({})]=1'"),
        *(
            "printf -v 'a[$({})]' x",
            "unset 'a[$({})]'",
            ": 'a[$({})]'; good $((_))",
            "good $((1+2))",
        ),
        *(
            "for i in 1 2; do good $((i * 2)); done",
            "echo 'a[$({})]' | while read x; do good $(($x)); done",
        ),
        *(
            "for x in 'a[$({})]'; do eval 'good $((x))'; done",
            "bash -c 'good $(($1))' _ 'a[$({})]'",
        ),
        *(
            "[[ 'a[$({})]' -eq 1 ]]; good",
            "for x in 'a[$({})]'; do declare -i y=x; done",
            "good ${{#x}} $((2))",
        ),
        *("good $(( $(wc -l < f) + 1 ))", "good $(( $(echo 'a[$({})]') ))", "good ${{f:x}}"),
    ),
    "environment": (
        *(
            "X=1 {}",
            "X=$({}) good",
            "PATH=./bad:$PATH good",
            "PATH=./bad good; {}",
            "export PATH=bad",
        ),
        *("good() {{ evil; }}; good", "f() {{ {}; }}; f", "function good {{ evil; }}; good"),
        *("alias good=evil; good", "NO_COLOR=1 {}", "LC_ALL=C good; {}", "TERM=dumb good $({})"),
        *(
            "export PATH=./bad:$PATH; good",
            "declare -x PATH=./bad:$PATH; good",
            "x={}; $x",
            "X=1; good",
        ),
        *(
            "for PATH in ./bad; do good; done",
            "read PATH < path; good",
            "IFS=o; g${{x}}ood",
            "hash -p ./bad/good good; good",
        ),
        *(
            "trap '{}' EXIT",
            "set -- {}; $@",
            "BASH_ENV=./bad/good bash -c good",
            "builtin . ./bad/good",
        ),
        *(". ./bad/good", "source bad/good", "exec {}", "enable -n test; good", "LANG=$({}) good"),
    ),
    "wrappers": (
        *("env {}", "timeout 5 {}", "nice {}", "nice -n 5 {}", "command {}", "nohup {}", "time {}"),
        *(
            "time -p {}",
            "env X=1 {}",
            "env -i {}",
            "stdbuf -oL {}",
            "setsid -w {}",
            "builtin command {}",
        ),
        *(
            "timeout -k 1 5 {}",
            "env -S '{}'",
            "env -u X {}",
            "timeout 5 nice {}",
            "echo a | xargs {}",
        ),
        *("echo a | xargs -I% {}", "xargs -a f {}", "find . -maxdepth 0 -exec {} \\;", "ionice {}"),
        *("find . -maxdepth 0 -exec {} {{}} +", "busybox {}", "flock f {}", "frob {}", "watch {}"),
        *(
            "echo a | xargs sh -c '{}'",
            "npx x '{}'; {}",
            "find . -maxdepth 0 -exec bash -c '{}' \\;",
            "coproc {}",
        ),
    ),
    "options": (
        *(
            "sort -o out f",
            "sort -ro out f",
            "sort --outp=out f",
            "find . -delete",
            "find . -fprint out",
        ),
        *("sed -n 'w out' f", "sed -n '1e evil' f", "sed -ni p f", "awk 'BEGIN{{system(\"{}\")}}'"),
        *(
            "awk '{{print > \"out\"}}' f",
            "awk '{{print | \"{}\"}}' f",
            "sed -n 's/a/evil/e' f",
            "sort f",
        ),
        *("sort --compress-program=./bad/good -S 1b f", "uniq f out", "sort -k1 -r f", "uniq -c f"),
        *(
            "awk '{{print $1}}' f",
            "sed -n 1,2p f",
            "sed -n 's/a/b/p' f",
            "find . -name '*.py'",
            "sort -- -o",
        ),
        *(
            "for x in -oout; do sort $x f; done",
            "sort $(echo -oout) f",
            "echo -oout | xargs sort f",
        ),
        *("for x in -delete; do find sub $x; done", "awk '$1 > 3' f", "sed -n -e p -e 'w out' f"),
    ),
    "redirections": (
        *(
            "{} > out",
            "{} >> out",
            "{} &> out",
            "{} >| out",
            "good > out; {}",
            "> out",
            "{} <> out",
        ),
        *(
            "{} > /dev/null",
            "{} 2>&1",
            "{} < f",
            "good 2> out | {}",
            "{{ {}; }} > out",
            "({}) 2> out",
        ),
        *("{} > $(echo out)", 'x=out; {} > "$x"', "good {{fd}}> out", "2>/dev/null {}", "{} >&2"),
        *(
            "if good; then {}; fi > out",
            "good > >(cat > out)",
            "{} < <(good)",
            "{} 2>/dev/null | cat",
        ),
        *(
            "[ a > out ]",
            "good >out<f",
            "good 3>out",
            "{} &>/dev/null",
            "! good > out",
            "cat < f > out",
        ),
    ),
    "blind spots": (
        *(
            "--; {}",
            "good --; {}",
            "-- {}",
            "good <<E; {}\nx\nE",
            "good <<A; cat <<B\nx\nA\nx\nB\n{}",
        ),
        *("<<E good\n$({})\nE", "good <<< x; {}", "cat <<E\nx\nE\n{}", "good $((1)) <<1\n{}\n1"),
        *("good <<'E'\n{}\nE", "good {{a,b}}; {}", "{{good,a}}; {}", "{{evil,a}}", "{{,evil}} a"),
        *(
            "good ${{x:-{}}}",
            "good ~; {}",
            "good $'a\\'b'; {}",
            "coproc N {{ {}; }}",
            "good !(a); {}",
        ),
        *(
            'good "a\\"; {}"',
            "good 'a'\\''b; {}'",
            "good '\n'; {}",
            "\n\n{}\n\n",
            "good ;{};",
            "{};",
        ),
    ),
    "inner shells": (
        *(
            "bash -c '{}'",
            "bash -lc '{}'",
            'bash -c "{}"',
            "sh -c '{}'",
            "bash -c 'good; {}'",
            "{} | bash",
        ),
        *(
            "bash -c 'bash -c \"{}\"'",
            "eval '{}'",
            "eval {}",
            "bash <<< '{}'",
            "bash <<E\n{}\nE",
            "bash f2",
        ),
        *("echo '{}' | bash", "bash <(echo '{}')", "source <(echo '{}')", "eval \"$(echo '{}')\""),
        *(
            "bash -c 'good \"$1\"' _ '{}'",
            "bash -c '$1' _ evil",
            "bash -ec '{}; good'",
            "printf '{}' | sh",
        ),
    ),
    "folders": (
        *(
            "cd bad && ./good",
            "cd bad; good; {}",
            "cd sub && {}",
            "(cd sub; {})",
            "pushd bad; ./good",
        ),
        *(
            "cd sub; good > out",
            "cd .. && {}",
            "cd; {}",
            "./bad/good",
            "bad/good",
            "../*/bad/good",
            "cd sub; cd -; {}",
        ),
    ),
    "paths and case": (
        *(
            "/bin/rm -rf x",
            "RM -rf x",
            "./good",
            "GOOD",
            "/???/rm -rf x",
            "bad/../bad/good",
            "git Status",
        ),
        *(
            "go?d",
            "[g]ood",
            "g*d",
            "~/bad/good",
            "cat ./f",
            "cat sub/../f",
            "cat *",
            "cat l*k",
            "{}",
        ),
    ),
    "invisible characters": (
        *(
            "good «200b»; {}",
            "good\r{}",
            "good «202e» a; {}",
            "good\x1b[2K; {}",
            "good\x0b{}",
            "good\x00{}",
        ),
        *("good «a0»a; {}", "«feff»good", "good 'ünï'; {}", "good «2028»{}"),
    ),
    "dynamic names": (
        *(
            "x=evil; $x",
            "$({})",
            "`{}` a",
            "${{x:-evil}}",
            "e${{x}}vil",
            "$(true) {}",
            "${{NOTHING}} {}",
        ),
        *(
            "for x in evil; do $x; done",
            'for x in good; do "$x"; done',
            "$0 -c '{}'",
            "ev*",
            "{{ev,go}}il",
        ),
        *(
            "for x in {}; do good; done",
            "for x in a b; do good $x; done",
            'for x in "{}"; do good "$x"; done',
        ),
    ),
    "quoted text": (
        *("good '{}'", 'good "{}"', "good $'{}'", "echo '; {}'", "good a '&& {}'", "good \\({}\\)"),
        *(
            'echo "a > b; {}"',
            "good '$({})' \"$(good)\"",
            "cat <<'E'\n{}; $({})\nE",
            "good '`{}`' # {}",
        ),
    ),
}


@dataclass(frozen=True)
class Generated:
    """A command, and the techniques that it is composed of: their rows and templates."""

    text: str
    used: tuple[tuple[str, str], ...]

    @property
    def rows(self):
        return {row for row, _ in self.used}


def generate(seed):
    """Compose one command; rows have equal chances, however many templates they have."""
    choose = random.Random(seed)
    text = choose.choice(HARMLESS if choose.random() < 0.72 else HARMFUL)
    used = []
    for _ in range(choose.choice((1, 1, 2, 3))):
        row = choose.choice(list(TECHNIQUES))
        template = choose.choice(TECHNIQUES[row])
        used.append((row, template))
        text = _visible(template).format(text, text)
    return Generated(text, tuple(used))


def edited(seed):
    """Change a few characters of a case: one that nobody has thought of is a step away from one."""
    choose = random.Random(seed)
    text = choose.choice(_texts())
    for _ in range(choose.choice((1, 1, 2, 3))):
        at = choose.randrange(len(text) + 1)
        how = choose.random()
        if how < 0.5:
            text = text[:at] + choose.choice(PIECES) + text[at:]
        elif how < 0.75:
            text = text[:at] + text[at + choose.choice((1, 1, 2)) :]
        else:
            other = choose.randrange(len(text) + 1)
            text = text[:at] + text[other : other + 1] + text[at + 1 :]
    return text or "good"


@cache
def _texts():
    """Collect short cases, each with a command that does harm and with one that does not."""
    from tests.permissions.test_cases import CASES

    groups = {"subst", "chain", "quote", "wrap", "env", "redir", "dynamic", "flags"}
    texts = [text for group, _, _, tool, _, text in CASES if tool == "Bash" and group in groups]
    texts += [each.text for each in each_once()]
    texts = [text for text in texts if len(text) < 200 and not _UNPRINTABLE.search(text)]
    denied = re.compile(r"rm -rf (?:src|/)")
    return [denied.sub(harm, text) for harm in ("evil a", "good a") for text in texts]


def each_once():
    """Every template once with a harmless and once with a harmful command."""
    for row, templates in TECHNIQUES.items():
        for template in templates:
            for text in ("good a", "evil a"):
                yield Generated(_visible(template).format(text, text), ((row, template),))


def _visible(template):
    from tests.permissions.test_cases import decoded

    return decoded(template)


TOKENS = (
    *(
        "good",
        "good a",
        "evil",
        "evil a",
        "echo",
        "eval",
        "[",
        "]",
        "!",
        "time",
        "'good'",
        "`evil`",
    ),
    *("'", '"', "`", "$(", ")", "((", "))", "$((", "$[", "a[", "${x:-", "${x#", "}", "{ ", "; }"),
    *("(", ";", "\n", "#", " # ", "\\", "\\\n", "\t", "\\'", '\\"', "$'", '$"', "'\\''", "$x"),
    *(
        "<<E",
        "<<'E'",
        "<<-E",
        "\nE\n",
        "\nE",
        "\n\tE\n",
        "E",
        "<<<",
        "<(",
        "<&",
        "<&-",
        "2>&1",
        ">&-",
    ),
    *("&", "|", "&&", "> /dev/null", "case a in a)", ";;", "esac", "if", "then", "fi", "[[", "]]"),
    *("for x in a; do", "done", "x=", "x=(", "f()", "@(", "*", "?", "~", "^", "=", "<", "-", "1"),
)


def scrambled(seed):
    """Put tokens of the shell in a row, whether or not they make a command."""
    choose = random.Random(seed)
    between = choose.choice(("", " ", " "))
    text = between.join(choose.choice(TOKENS) for _ in range(choose.randrange(3, 13)))
    return f"good {text}" if choose.random() < 0.7 else text
