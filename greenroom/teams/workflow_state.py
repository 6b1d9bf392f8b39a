"""The state of a workflow: typed fields, and how the changes of its nodes become the next state.

The state is kept as JSON, field by field. So each node gets a copy of its own, whatever one of them does to
it reaches no other, and a run that is resumed sees the very values that the run before it has seen.
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

from greenroom.core import JSON, Message, WorkflowError, serde

__all__ = ["Changes", "StateSchema", "Values", "add_messages"]

StateT = TypeVar("StateT")

Changes: TypeAlias = dict[str, object]
"""What a node has changed: fields and their updates, as JSON."""

Values: TypeAlias = Mapping[str, bytes]
"""A state: its fields as JSON."""


def add_messages(old: list[Message], new: list[Message]) -> list[Message]:
    """Add messages to a conversation: one with a known id takes that one's place, others follow in order.

    A reducer: `messages: Annotated[list[Message], add_messages]`. A message without an id is always added.

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
    decoder: "msgspec.json.Decoder[object]"
    reducer: Callable[[object, object], object] | None

    @classmethod
    def of(cls, name: str, hint: object) -> "_Field":
        if get_origin(hint) in (Required, NotRequired):
            (hint,) = get_args(hint)
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        return cls(name, msgspec.json.Decoder(hint), next(filter(callable, marks), None))

    def fit(self, value: object) -> bytes:
        """Return a value as JSON of the field's type, the nearest one that there is.

        Where a reducer takes lists, an item may stand alone; a text may be the JSON of a value.

        Raises:
            ValidationError: it is of another type.
        """
        raw = serde.encode(value)
        try:
            self.decoder.decode(raw)
        except msgspec.ValidationError:
            for other in self._nearest(value, raw):
                try:
                    self.decoder.decode(other)
                except msgspec.DecodeError:
                    continue
                return other
            raise
        return raw

    def _nearest(self, value: object, raw: bytes) -> Iterable[bytes]:
        if self.reducer is not None:
            yield b"[" + raw + b"]"
        if isinstance(value, str):
            yield value.encode()

    def join(self, old: bytes | None, update: bytes) -> bytes:
        """Return the next value of the field; the first update of a field without a value is its value."""
        if self.reducer is None or old is None:
            return update
        new = self.reducer(self.decoder.decode(old), self.decoder.decode(update))
        return self.fit(new)


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
            raise WorkflowError(
                f"{kind!r} can't be the state of a workflow",
                hint="write a msgspec.Struct or a TypedDict",
            )
        try:
            hints = get_type_hints(kind, include_extras=True)
            self._fields = {name: _Field.of(name, hint) for name, hint in hints.items()}
        except TypeError as error:
            raise WorkflowError(f"{kind.__name__} can't be stored as JSON: {error}") from error

    def refuse_unknown(self, name: str, who: str) -> None:
        """Refuse the name of a field that there is not."""
        if name not in self._fields:
            known = ", ".join(self._fields)
            raise WorkflowError(f"{who}: {self._kind.__name__} has no field {name!r}", hint=known)

    def begin(self, given: object) -> Changes:
        """Return the first state as changes: what is given, and the defaults of the class.

        Raises:
            WorkflowError: a value is missing, unknown, or of another type.
        """
        if self._is_struct and isinstance(given, self._kind):
            return self.check("START", {name: getattr(given, name) for name in self._fields})
        changes = self.check("START", given)
        return (
            self.begin(self.make(self.merge({}, [("START", changes)])))
            if self._is_struct
            else changes
        )

    def check(self, who: str, changes: object) -> Changes:
        """Return what a node has changed as JSON, of the types that the fields have.

        Raises:
            WorkflowError: it is not a dict of fields, or a value is of another type.
            InvalidJSONError: a value can't be stored.
        """
        if changes is None:
            return {}
        if not isinstance(changes, Mapping):
            raise WorkflowError(
                f"{who} returned {type(changes).__name__}",
                hint="return a dict of the fields that change",
            )
        checked: Changes = {}
        for name, value in changes.items():
            self.refuse_unknown(name, who)
            serde.check_json(msgspec.to_builtins(value))
            try:
                checked[name] = serde.loads(self._fields[name].fit(value))
            except msgspec.ValidationError as error:
                raise WorkflowError(f"{who} can't set {name}: {error}") from error
        return checked

    def merge(self, values: Values, writes: Iterable[tuple[str, Changes]]) -> Values:
        """Return the state after these changes, which were made in one step, in their order.

        Raises:
            WorkflowError: two of them set a field that has no reducer, or a reducer does not return what
                its field holds.
        """
        merged, writers = dict(values), dict[str, str]()
        for who, changes in writes:
            for name, update in changes.items():
                self.refuse_unknown(name, who)
                field = self._fields[name]
                if field.reducer is None and name in writers:
                    raise WorkflowError(
                        f"{writers[name]} and {who} both set {name} in one step",
                        hint=f"let one of them set it, or say how: {name}: Annotated[…, reducer]",
                    )
                writers[name] = who
                try:
                    merged[name] = field.join(merged.get(name), field.fit(update))
                except msgspec.ValidationError as error:
                    raise WorkflowError(f"{who} can't set {name}: {error}") from error
        return merged

    def make(self, values: Values) -> StateT:
        """Return a state of its own for somebody who may change it.

        Raises:
            WorkflowError: a field without a default has no value.
        """
        found = {name: self._fields[name].decoder.decode(raw) for name, raw in values.items()}
        try:
            return self._kind(**found)
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
