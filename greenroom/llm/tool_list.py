"""The tools of a request: those that we run, and what its options say of tools."""

from collections.abc import Mapping, Sequence

from greenroom.llm.fields import extended, mapping, text


def merged_tools(
    typed: Sequence[dict[str, object]], options: Mapping[str, object]
) -> dict[str, object]:
    """Return the field `tools` of a request, or nothing where it has none.

    The tools of the options join the typed ones. One with the name of a typed tool adds its fields to
    it (to its `function`, where the API wraps tools so), and gives it its place in the list; typed tools
    that are not named come first.
    What is not a list of objects, such as `msgspec.UNSET`, replaces them all.

    Example:
        >>> search = {"type": "web_search_20260318", "name": "web_search"}
        >>> merged_tools([{"name": "Read"}], {"tools": [search, {"name": "Read", "strict": True}]})
        {'tools': [{'type': 'web_search_20260318', 'name': 'web_search'}, {'name': 'Read', 'strict': True}]}
    """
    given = options.get("tools")
    if given is None and "tools" not in options:
        return {"tools": list(typed)} if typed else {}
    if not isinstance(given, Sequence) or not all(isinstance(tool, Mapping) for tool in given):
        return {"tools": given}
    named = {_name(tool): tool for tool in typed}
    rest = [named.get(_name(tool), {}) for tool in given]
    first = [tool for tool in typed if all(tool is not each for each in rest)]
    return {"tools": [*first, *map(_merge, rest, given)]}


def _merge(typed: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    if "function" in typed and "function" not in given:
        given = {"function": given}
    return extended(typed, given)


def _name(tool: Mapping[str, object]) -> str:
    return text(tool.get("name")) or text(mapping(tool.get("function")).get("name"))
