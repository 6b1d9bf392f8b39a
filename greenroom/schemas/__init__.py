"""JSON Schemas from outside, and values that are checked against them.

Whoever wrote a schema, and whatever the value is, a check ends soon and says what is wrong in words
that a model can act on.

- `foreign_schema` rewrites the dialects in use (drafts, OpenAPI, what generators emit) as one, and
  refuses what can't be a schema. `bounded_check` checks values, with a bound on the work.
- `faults` puts a failed check into words, with what `brief_value` writes of a value.
- `validation` is what callers use: the input of a call or an answer, with what `quoted_json` reads
  from texts where the schema wants no text.

Example:
    >>> import trio
    >>> from greenroom.schemas._internal import InputValidator
    >>> schema = {"type": "object", "properties": {"days": {"type": "integer"}}}
    >>> trio.run(InputValidator("forecast", schema).check, {"days": "3"})
    ({'days': 3}, None)
"""
