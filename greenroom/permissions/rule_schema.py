"""The format of a rule file as pydantic models, the source of its published JSON Schema."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field, StrictBool, StrictInt

from greenroom.core import RuleDecision
from greenroom.permissions.matcher import KINDS, RuleMatcher
from greenroom.permissions.rule import PermissionRule, RuleScope


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
_OneOrMore = BeforeValidator(_as_list, json_schema_input_type=Text | list[Text])
Examples = Annotated[list[Text], _OneOrMore]
Texts = Annotated[Examples, Field(min_length=1)]


class RuleModel(BaseModel, extra="forbid"):
    """One rule. Its matchers (tool … all) are ANDed, the values of one are ORed."""

    id: Text | None = Field(None, description="A name, unique in the file.")
    decision: RuleDecision = Field(description="What it decides about calls that it matches.")
    tool: Texts | None = Field(None, description="Exact names of tools.")
    category: Texts | None = Field(None, description="Categories of tools.")
    command_prefix: Texts | None = Field(None, description="First words of a simple command.")
    argv_exact: Text | Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="All words of a simple command, one by one or as one text.",
    )
    path: Texts | None = Field(None, description="Patterns of files that are read or written.")
    domain: Texts | None = Field(None, description="Hosts; *.name stands for subdomains.")
    regex: Texts | None = Field(None, description="Expressions that match a simple command.")
    redirect_to: Texts | None = Field(None, description="Files that its output may go to.")
    definition_hash: Texts | None = Field(None, description="Digests of the tool's definition.")
    all: Literal[True] | None = Field(None, description="Every call.")
    scope: RuleScope = Field(RuleScope.GLOBAL, description="User, session, agent, global.")
    agent: Text | None = Field(None, description="The agent type that it applies to.")
    session: Text | None = Field(None, description="The session that it applies to.")
    priority: StrictInt = Field(0, description="Within a scope, higher is tried first.")
    description: str = ""
    message: str = Field("", description="What the model reads if the rule denies a call.")
    final: StrictBool = Field(False, description="Tried before all that are not final.")
    expires: AwareDatetime | None = Field(None, description="When it stops matching.")
    created_by: str = ""
    match: Examples = Field([], description="Examples that it must match.")
    not_match: Examples = Field([], description="Examples that it must not match.")

    def rule(self) -> PermissionRule:
        """Make the rule.

        Raises:
            RuleFileError: the matcher is missing or invalid.
        """
        matcher = RuleMatcher.of(self.model_dump(include=_MATCHERS, exclude_none=True))
        others = self.model_dump(exclude=_MATCHERS, exclude_none=True)
        return PermissionRule(matcher=matcher, **others)

    @classmethod
    def of(cls, rule: PermissionRule) -> "RuleModel":
        """Describe a rule for a file; empty fields are left out."""
        values: dict[str, object] = {**vars(rule.matcher), **vars(rule)}
        if rule.id == rule.generated_id:
            del values["id"]
        return cls.model_validate({k: values[k] for k in cls.model_fields if values.get(k)})


_MATCHERS = {*KINDS, "all"}


class DefaultsModel(BaseModel, extra="forbid"):
    """What happens if no rule matches. It can't be changed; a file may state it for its readers."""

    interactive: Literal["ask"] = "ask"
    non_interactive: Literal["deny"] = "deny"


class RuleFileModel(BaseModel, extra="forbid"):
    """A permission rule file."""

    version: Literal[1] = Field(description="The version of the format.")
    defaults: DefaultsModel = DefaultsModel()
    rules: list[RuleModel] = []
