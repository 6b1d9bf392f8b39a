"""Questions before the person in an editor: which answers there are, and what each decides."""

from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.core import Answer, PermissionRequest, RuleDecision
from greenroom.core._internal import Remember, clip, describe_effects, exact, thaw, visible

_YES, _NO = RuleDecision.ALLOW, RuleDecision.DENY
_DENY, _RAN = Answer(_NO), Answer(_NO, input={"result": None})
_ANSWER = "answer"  # the field of a form
_MAX_NAME = 200  # characters
_SCOPES: tuple[tuple[Remember, str], ...] = (
    ("session", "Allow in this session"),
    ("project", "Allow in this project"),
    ("always", "Always allow"),
)

NO_WORDS = "This editor has no field for words: ask in your reply, and end your turn."
"""The reason for the model that a question in words is not asked."""

NO_SECRETS = "An editor can't take a credential: the user has to give it in a terminal."
"""The reason for the model that a credential is not asked for."""


@dataclass(frozen=True)
class Choice:
    """One answer.

    Attributes:
        id: how the editor names it when it is chosen.
        name: its words.
        kind: what kind of answer it is for the editor.
        answer: what it decides.
    """

    id: str
    name: str
    kind: str
    answer: Answer

    def write(self) -> dict[str, object]:
        """Write it as the editor gets it."""
        return {"optionId": self.id, "name": clip(self.name, _MAX_NAME), "kind": self.kind}


def _allow(words: str = "") -> Answer:
    return Answer(_YES, message=words)


def list_choices(request: PermissionRequest) -> tuple[Choice, ...]:
    """List the answers to a question that needs no words; without a narrow rule none is kept."""
    if request.options is not None:
        return (
            *(
                Choice(f"answer-{number}", exact(words), "allow_once", _allow(words))
                for number, words in enumerate(request.options, 1)
            ),
            Choice("no", "None of these", "reject_once", _DENY),
        )
    if request.may_have_run:
        return (
            Choice("once", "It did not run: run it", "allow_once", _allow()),
            Choice("ran", "It ran", "reject_once", _RAN),
            Choice("no", "Leave it out", "reject_once", _DENY),
        )
    choices = [Choice("once", "Allow once", "allow_once", _allow())]
    if request.remembers:
        rules = _name_rules(request.remembers)
        choices += [
            Choice(scope, f"{words}: {rules}", "allow_always", Answer(_YES, scope))
            for scope, words in _SCOPES
        ]
    choices.append(Choice("no", "Reject", "reject_once", _DENY))
    if request.forbids:
        words = f"Always reject: {_name_rules(request.forbids)}"
        choices.append(Choice("never", words, "reject_always", Answer(_NO, "always")))
    return tuple(choices)


def _name_rules(rules: tuple[str, ...]) -> str:
    return ", ".join(" ".join(exact(each).split("\n")) for each in rules)


def write_servers(lines: Sequence[str]) -> dict[str, object]:
    """Write the question whether to connect to servers of tools that the editor has named."""
    text = "\n".join(visible(each) for each in lines)
    what = "server of tools" if len(lines) == 1 else f"{len(lines)} servers of tools"
    return {
        "title": f"Connect to the {what} that your editor has named",
        "kind": "other",
        "content": [{"type": "content", "content": {"type": "text", "text": text}}],
    }


CONNECT = ("allow_once", "allow_always", "reject_once")
"""The answers to that question, each the kind of its option."""


def list_connect() -> list[dict[str, object]]:
    """List the answers to that question."""
    names = ("Connect this time", "Connect, and don't ask again", "Don't connect")
    return [
        {"optionId": kind, "name": name, "kind": kind}
        for kind, name in zip(CONNECT, names, strict=True)
    ]


def write_form(request: PermissionRequest) -> dict[str, object] | None:
    """Write the form of a question that is answered in words; None for any other."""
    if request.fields is not None:
        schema: object = thaw(request.fields)
    elif request.options == ():
        schema = {
            "type": "object",
            "properties": {_ANSWER: {"type": "string", "title": "Answer"}},
            "required": [_ANSWER],
        }
    else:
        return None
    return {"message": exact(request.details or request.action), "requestedSchema": schema}


def read_form(request: PermissionRequest, content: dict[str, object]) -> Answer:
    """Read what a person has put into the form of a question."""
    if request.fields is not None:
        return Answer(_YES, input=content)
    return Answer(_YES, message=str(content.get(_ANSWER, "")))


def describe(request: PermissionRequest) -> str:
    """Say what a person has to know of a call beyond what it does, a line each; perhaps nothing."""
    lines = [*request.warnings, *describe_effects(request.effects)]
    if request.runs_as:
        lines.append(f"read as: {request.runs_as}")
    if request.host:
        lines.append(f"on the machine {request.host}")
    if request.reason and request.options is None and any(each.rule_id for each in request.parts):
        lines.append(f"asked because: {request.reason}")
    if request.sandbox is not None:
        lines.append(f"sandbox: {request.sandbox}")
    return "\n".join(" ".join(exact(each).split("\n")) for each in lines)
