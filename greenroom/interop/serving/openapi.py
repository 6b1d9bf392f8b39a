"""The description of the API for programs, in the form of OpenAPI 3.1."""

import re
from collections.abc import Sequence
from functools import cache

from greenroom._version import __version__
from greenroom.core._internal import serde
from greenroom.interop.serving.route import Route

_REFUSAL = {
    "description": "refused",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error", "kind", "hint"],
                "properties": {
                    "error": {"type": "string", "description": "what is wrong"},
                    "kind": {"type": "string", "description": "a word for programs"},
                    "hint": {"type": "string", "description": "what to do about it"},
                },
            }
        }
    },
}


@cache
def describe_api(routes: Sequence[Route]) -> dict[str, object]:
    """Describe these routes; each needs a token of its role, or of a higher one."""
    bodies = [each.body for each in routes if each.body is not None]
    paths: dict[str, dict[str, object]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Greenroom", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"refused": _REFUSAL},
            "schemas": serde.make_components(bodies, "#/components/schemas/{name}", _describe_any),
        },
    }


def _describe_any(kind: object) -> dict[str, object]:
    return {"description": "any JSON"}


def _describe(route: Route) -> dict[str, object]:
    parameters: list[dict[str, object]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": what, "schema": {"type": "string"}}
        for name, what in route.query
    ]
    found: dict[str, object] = {
        "summary": route.summary,
        "description": f"Needs a token with the role {route.role}, or one above it.",
        "parameters": parameters,
        "responses": {
            **{str(status): {"description": "done"} for status in route.statuses},
            "default": {"$ref": "#/components/responses/refused"},
        },
    }
    if route.body is not None:
        schema = {"$ref": f"#/components/schemas/{route.body.__name__}"}
        found["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return found
