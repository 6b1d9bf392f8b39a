"""The state of a workflow: typed fields, and how changes of nodes are merged into the next state.

Each field is stored as JSON. So each node gets its own copy, and a resumed run sees exactly the
values that the earlier run saw.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Generic,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import UNSET

from greenroom.core import Message
from greenroom.core._internal import JSON, InvalidJSONError, serde, valid_unicode
from greenroom.flow.errors import WorkflowError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

StateT = TypeVar("StateT")

START = "START"
"""The beginning of every run of a workflow."""

END = "END"
"""The end of a branch of a workflow; a run ends when all its branches have."""

Changes: TypeAlias = dict[str, object]
"""The changes of a node: fields and their updates, as JSON."""

Values: TypeAlias = Mapping[str, bytes]
"""A state: its fields as JSON."""


def add_messages(old: list[Message], new: list[Message]) -> list[Message]:
    """Add messages to a conversation; a message with a known id replaces the one with that id.

    This is a reducer: `messages: Annotated[list[Message], add_messages]`.

    Example:
        >>> from greenroom import Message
        >>> first, second = Message.user("a", id="1"), Message.user("b", id="2")
        >>> merged = add_messages([first, second], [Message.user("c", id="1")])
        >>> [message.text for message in merged]
        ['c', 'b']
    """
    merged = list(old)
    places = {message.id: place for place, message in enumerate(old) if message.id}
    for message in new:
        if message.id in places:
            merged[places[message.id]] = message
        else:
            if message.id:
                places[message.id] = len(merged)
            merged.append(message)
    return merged


@dataclass(frozen=True)
class _Field:
    """One field of a state, and its reducer if it has one."""

    name: str
    decode: Callable[[bytes], object]
    reducer: Callable[[object, object], object] | None

    @classmethod
    def of(cls, name: str, hint: "TypeForm[object]") -> "_Field":
        if get_origin(hint) in (Required, NotRequired):
            (hint,) = get_args(hint)
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        decode = serde.make_decoder(hint).decode
        return cls(name, decode, next(filter(callable, marks), None))

    def encode(self, who: str, value: object) -> bytes:
        """Return a value as JSON of the field's type.

        For a reducer of lists, the value may be a single item; a text may be the JSON of a value.
        """
        try:
            raw, problem = serde.encode(value), None
            # nan is encoded as null, so look at the value itself; what can't be converted is JSON.
            serde.check_json(msgspec.to_builtins(value, enc_hook=lambda _: None))
        except InvalidJSONError as error:
            raise InvalidJSONError(f"{who} can't set {self.name}: {error}") from error
        others = [b"[%b]" % raw] if self.reducer is not None else []
        others += [valid_unicode(value).encode()] if isinstance(value, str) else []
        for each in (raw, *others):
            try:
                self.decode(each)
            except msgspec.DecodeError as error:
                problem = problem or error
            else:
                return each
        raise WorkflowError(f"{who} can't set {self.name}: {problem}")

    def reduce(self, who: str, old: object, update: bytes) -> object:
        """Return the next value; for a field without a value, that is the update."""
        new = self.decode(update)
        if old is UNSET or self.reducer is None:
            return new
        try:
            joined = self.reducer(old, new)
        except Exception as error:
            error.add_note(f"in the reducer of {self.name}, with the update of {who}")
            raise
        # Only a value of another type is converted: with each update of a long list of items, the
        # time would be its square.
        return joined if type(joined) is type(old) else self.decode(self.encode_joined(who, joined))

    def encode_joined(self, who: str, joined: object) -> bytes:
        """Return what the reducer made of updates, as JSON."""
        return self.encode(f"the reducer, with the update of {who},", joined)


class StateSchema(Generic[StateT]):
    """The fields of a state: a msgspec struct or a TypedDict."""

    def __init__(self, kind: type[StateT]) -> None:
        self._kind = kind
        self._is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        if not self._is_struct and not is_typeddict(kind):
            hint = "write a msgspec.Struct or a TypedDict, and leave out its parameters"
            raise WorkflowError(f"{kind!r} can't be the state of a workflow", hint=hint)
        try:
            hints = get_type_hints(kind, include_extras=True)
            names = getattr(kind, "__struct_fields__", hints)  # without class variables
            self._fields = {name: _Field.of(name, hints[name]) for name in names}
        except (TypeError, NameError) as error:
            hint = "use types that msgspec supports, defined at the top of a module"
            message = f"{kind.__name__} can't be stored as JSON: {error}"
            raise WorkflowError(message, hint=hint) from error

    def field(self, name: str, who: str) -> _Field:
        """Return a field."""
        if name not in self._fields:
            message = f"{who}: {self._kind.__name__} has no field {name!r}"
            raise WorkflowError(message, hint=f"fields: {', '.join(self._fields)}")
        return self._fields[name]

    def begin(self, given: object) -> Changes:
        """Return the first state as changes: the given values, and the defaults of the class.

        A TypedDict may begin without some of its fields, which nodes set later.

        Raises:
            WorkflowError: a field is unknown, a value has the wrong type, or a struct lacks one.
        """
        if self._is_struct:
            if not isinstance(given, self._kind):
                given = self.make(self.merge({}, [(START, self.check(START, given))]))
            given = {name: getattr(given, name) for name in self._fields}
        return self.check(START, given)

    def check(self, who: str, changes: object) -> Changes:
        """Return the changes of a node as JSON, checked against the types of the fields.

        Raises:
            WorkflowError: it is not a dict of fields, or a value has the wrong type.
            InvalidJSONError: a value is not JSON.
        """
        if not isinstance(changes, Mapping | None):
            hint = "return a dict of the fields that change"
            raise WorkflowError(f"{who} returned {type(changes).__name__}", hint=hint)
        checked: Changes = {}
        for name, value in (changes or {}).items():
            checked[name] = serde.loads(self.field(name, who).encode(who, value))
        return checked

    def merge(self, values: Values, writes: Iterable[tuple[str, Changes]]) -> Values:
        """Return the state after these changes of one step, applied in order."""
        merged, writers = dict(values), dict[str, str]()
        joined: dict[str, object] = {}
        units: dict[str, dict[str, None]] = {}  # whose updates they are
        for who, changes in writes:
            for name, update in changes.items():
                field = self.field(name, who)
                if field.reducer is None and name in writers:
                    raise WorkflowError(
                        f"{writers[name]} and {who} both set {name} in one step",
                        hint=f"set it in one of them, or declare {name}: Annotated[…, reducer]",
                    )
                writers[name] = who
                encoded = field.encode(who, update)
                if field.reducer is None:
                    merged[name] = encoded
                    continue
                units.setdefault(name, {})[who] = None
                if name not in joined:
                    joined[name] = field.decode(merged[name]) if name in merged else UNSET
                joined[name] = field.reduce(who, joined[name], encoded)
        for name, value in joined.items():
            first, *others = units[name]
            who = f"{first} or {others[0] if len(others) == 1 else 'another'}" if others else first
            merged[name] = self._fields[name].encode_joined(who, value)
        return merged

    def make(self, values: Values) -> StateT:
        """Return the state as an object of its class, which the caller may change."""
        try:
            return self._kind(**{name: self.read(values, name) for name in values})
        except TypeError as error:
            raise WorkflowError(f"{self._kind.__name__}: {error}") from error

    def read(self, values: Values, name: str) -> object:
        """Return the value of one field; a `WorkflowError` if it has none."""
        return self._fields[name].decode(_raw(values, name))

    def plain(self, values: Values, name: str = "") -> JSON:
        """Return one field, or all of them, as JSON; a `WorkflowError` if it has none."""
        if name:
            return serde.loads(_raw(values, name))
        return {each: serde.loads(raw) for each, raw in values.items()}


def _raw(values: Values, name: str) -> bytes:
    if name not in values:
        raise WorkflowError(f"{name} has no value yet", hint="pass one, or give it a default")
    return values[name]
