"""The page of the API, and its description for programs, say what the routes are."""

import json
import re
import runpy
from pathlib import Path

import jsonschema

from greenroom.core._internal import serde
from greenroom.interop.serving.openapi import describe_api
from greenroom.interop.serving.route_table import ROUTES

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "reference" / "serving.py"))


def test_the_page_of_the_api_is_up_to_date():
    page = SCRIPT["PAGE"].read_text()
    assert page == SCRIPT["page"](), "run: python docs/reference/serving.py"
    assert all(f"`{route.method} {route.path}" in page for route in ROUTES)


def walk(value):
    yield value
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from walk(each)


def test_the_description_for_programs_is_whole():
    described = json.loads(serde.encode(describe_api(ROUTES)))
    found = {(method.upper(), path) for path, each in described["paths"].items() for method in each}
    assert found == {(route.method, route.path) for route in ROUTES}
    for path, methods in described["paths"].items():
        for each in methods.values():
            named = {p["name"] for p in each["parameters"] if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
            assert each["summary"].endswith(".")
    refs = [each["$ref"] for each in walk(described) if isinstance(each, dict) and "$ref" in each]
    assert refs
    for ref in refs:
        place = described
        for part in ref.removeprefix("#/").split("/"):
            place = place[part]
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
