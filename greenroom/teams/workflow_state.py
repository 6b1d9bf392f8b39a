"""The state of a workflow: typed fields, and how changes of nodes are merged into the next state.

Each field is stored as JSON. So each node gets its own copy, and a resumed run sees exactly the
values that the earlier run saw.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import (
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

from greenroom.core import JSON, InvalidJSONError, Message, WorkflowError, serde

StateT = TypeVar("StateT")

START = "START"
"""Where every run of a workflow begins."""

END = "END"
"""Where a branch of a workflow ends; the run has ended when all of them have."""

Changes: TypeAlias = dict[str, object]
"""What a node has changed: fields and their updates, as JSON."""

Values: TypeAlias = Mapping[str, bytes]
"""A state: its fields as JSON."""


def add_messages(old: list[Message], new: list[Message]) -> list[Message]:
    """Add messages to a conversation: one with a known id takes that one's place, others follow in order.

    A reducer: `messages: Annotated[list[Message], add_messages]`. A message without an id is always
    added.

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
    """One field of a state, and what makes its next value of the last one and an update."""

    name: str
    decoder: msgspec.json.Decoder[object]
    reducer: Callable[[object, object], object] | None

    @classmethod
    def of(cls, name: str, hint: object) -> "_Field":
        if get_origin(hint) in (Required, NotRequired):
            (hint,) = get_args(hint)
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        return cls(name, msgspec.json.Decoder(hint), next(filter(callable, marks), None))

    def encode(self, who: str, value: object) -> bytes:
        """Return a value as JSON of the field's type.

        Where a reducer takes lists, an item may stand alone; a text may be the JSON of a value.
        """
        try:
            raw, problem = serde.encode(value), None
        except InvalidJSONError as error:
            raise InvalidJSONError(f"{who} can't set {self.name}: {error}") from error
        alone = [b"[%b]" % raw] if self.reducer is not None else []
        for each in (raw, *alone, *([value.encode()] if isinstance(value, str) else [])):
            try:
                self.decoder.decode(each)
            except msgspec.DecodeError as error:
                problem = problem or error
            else:
                return each
        raise WorkflowError(f"{who} can't set {self.name}: {problem}")

    def reduce(self, who: str, old: bytes | None, update: bytes) -> bytes:
        """Return the next value; the first update of a field without a value is its value."""
        if self.reducer is None or old is None:
            return update
        try:
            joined = self.reducer(self.decoder.decode(old), self.decoder.decode(update))
        except Exception as error:
            error.add_note(f"in the reducer of {self.name}, with what {who} has set")
            raise
        return self.encode(f"the reducer, with what {who} has set,", joined)


class StateSchema(Generic[StateT]):
    """The fields of a state: a msgspec struct or a TypedDict."""

    def __init__(self, kind: type[StateT]) -> None:
        """Read the fields and the reducers of a class.

        Raises:
            WorkflowError: it is neither, or a field is of a type that can't be stored.
        """
        self._kind = kind
        self._is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        if not self._is_struct and not is_typeddict(kind):
            hint = "write a msgspec.Struct or a TypedDict, and leave out its parameters"
            raise WorkflowError(f"{kind!r} can't be the state of a workflow", hint=hint)
        try:
            hints = get_type_hints(kind, include_extras=True)
            names = getattr(kind, "__struct_fields__", hints)  # a class variable is none of them
            self._fields = {name: _Field.of(name, hints[name]) for name in names}
        except (TypeError, NameError) as error:
            hint = "its types are those that msgspec knows, at the top of a module"
            message = f"{kind.__name__} can't be stored as JSON: {error}"
            raise WorkflowError(message, hint=hint) from error

    def field(self, name: str, who: str) -> _Field:
        """Return a field.

        Raises:
            WorkflowError: there is none of this name.
        """
        if name not in self._fields:
            message = f"{who}: {self._kind.__name__} has no field {name!r}"
            raise WorkflowError(message, hint=f"fields: {', '.join(self._fields)}")
        return self._fields[name]

    def begin(self, given: object) -> Changes:
        """Return the first state as changes: what is given, and the defaults of the class.

        A TypedDict may begin with fewer fields than it has, for its nodes to set.

        Raises:
            WorkflowError: a value is unknown, or of another type, or a struct lacks one.
        """
        if self._is_struct:
            if not isinstance(given, self._kind):
                given = self.make(self.merge({}, [(START, self.check(START, given))]))
            given = {name: getattr(given, name) for name in self._fields}
        return self.check(START, given)

    def check(self, who: str, changes: object) -> Changes:
        """Return what a node has changed as JSON, of the types that the fields have.

        Raises:
            WorkflowError: it is not a dict of fields, or a value is of another type.
            InvalidJSONError: a value can't be stored.
        """
        if not isinstance(changes, Mapping | None):
            hint = "return a dict of the fields that change"
            raise WorkflowError(f"{who} returned {type(changes).__name__}", hint=hint)
        checked: Changes = {}
        for name, value in (changes or {}).items():
            encoded = self.field(name, who).encode(who, value)
            serde.check_json(msgspec.to_builtins(value))
            checked[name] = serde.loads(encoded)
        return checked

    def merge(self, values: Values, writes: Iterable[tuple[str, Changes]]) -> Values:
        """Return the state after these changes, which were made in one step, in their order.

        Raises:
            WorkflowError: two of them set a field that has no reducer, or a reducer does not return
                what its field holds.
        """
        merged, writers = dict(values), dict[str, str]()
        for who, changes in writes:
            for name, update in changes.items():
                field = self.field(name, who)
                if field.reducer is None and name in writers:
                    raise WorkflowError(
                        f"{writers[name]} and {who} both set {name} in one step",
                        hint=f"let one of them set it, or say how: {name}: Annotated[…, reducer]",
                    )
                writers[name] = who
                merged[name] = field.reduce(who, merged.get(name), field.encode(who, update))
        return merged

    def make(self, values: Values) -> StateT:
        """Return a state of its own for someone who may change it.

        Raises:
            WorkflowError: a field without a default has no value.
        """
        try:
            return self._kind(**{name: self.read(values, name) for name in values})
        except TypeError as error:
            raise WorkflowError(f"{self._kind.__name__}: {error}") from error

    def read(self, values: Values, name: str) -> object:
        """Return the value of one field; raises what `plain` raises."""
        return self._fields[name].decoder.decode(_raw(values, name))

    def plain(self, values: Values, name: str = "") -> JSON:
        """Return one field, or all of them, as JSON.

        Raises:
            WorkflowError: the field has no value.
        """
        if name:
            return serde.loads(_raw(values, name))
        return {each: serde.loads(raw) for each, raw in values.items()}


def _raw(values: Values, name: str) -> bytes:
    if name not in values:
        raise WorkflowError(f"{name} has no value yet", hint="give it one, or a default")
    return values[name]
