"""The page of compatible servers says of each what the table of profiles says.

`GREENROOM_WRITE_DOCS=1` writes it anew.
"""

import os
import re
from pathlib import Path

import pytest

from greenroom.llm import HOSTS, MODELS
from greenroom.llm.endpoint import is_local

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "providers" / "compatible.md"
BEGIN, END = "<!-- servers -->\n", "<!-- /servers -->\n"

USUAL_ECHOED_FIELDS = HOSTS["openrouter"].echoed_fields


def rows(host):
    yield "name", f"`{host.name}:MODEL`"
    if "://" in host.base_url:
        yield "address", f"`{host.base_url}`"
    else:
        yield "address", "your own"
    needed = (
        ", not needed on this machine"
        if is_local(host.base_url) and host.base_url[0] != "/"
        else ""
    )
    yield "key", " or ".join(f"`{each}`" for each in host.key_variables) + needed
    if host.base_variables:
        yield "another address", " or ".join(f"`{each}`" for each in host.base_variables)
    schema = {True: "takes a JSON Schema", False: "takes no JSON Schema", None: "not known"}
    yield "structured output", schema[host.json_schema]
    if host.echoed_fields != USUAL_ECHOED_FIELDS:
        sent = (
            ", ".join(f"`{each}`" for each in sorted(host.echoed_fields))
            or "nothing but text and calls"
        )
        yield "reply fields sent back", sent
    if host.call_id_length or host.longest_call_id:
        limit = f"{host.call_id_length} letters and digits" if host.call_id_length else None
        yield "call ids", limit or f"at most {host.longest_call_id} characters"
    known = [name for name in MODELS if name.startswith(f"{host.name}:")]
    if known:
        yield "known models", ", ".join(f"`{name}`" for name in known)


def section(host):
    lines = [f"### {host.name}", "", "| | |", "| --- | --- |"]
    lines += [f"| {what} | {says} |" for what, says in rows(host)]
    return "\n".join(lines) + "\n\n"


@pytest.fixture(scope="module")
def generated():
    return "".join(section(host) for host in HOSTS.values() if host.name != "openai")


def test_the_page_is_what_the_table_says(generated):
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    if os.environ.get("GREENROOM_WRITE_DOCS") == "1":
        PAGE.write_text(f"{text[:begin]}\n{generated}{text[end:]}")
        return
    assert text[begin:end] == f"\n{generated}"


def test_every_server_has_a_section_that_can_be_linked_to(generated):
    found = re.findall(r"^### (.+)$", generated, re.MULTILINE)
    assert found == [name for name in HOSTS if name != "openai"]


def test_the_provider_of_the_page_is_as_short_as_it_is_said_to_be():
    page = (PAGE.parents[2] / "how-to" / "write-a-provider.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    provider, server, _ = code.partition("REPLY = ")
    assert server
    assert len(provider.rstrip().splitlines()) < 100
