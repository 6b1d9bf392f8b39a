"""The pages of servers and of models are those of the tables; the provider of a page is short."""

import re
import runpy
from pathlib import Path

import pytest

from greenroom.llm._internal import HOSTS

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "reference" / "providers.py"))
MODELS = runpy.run_path(str(DOCS / "reference" / "models.py"))


@pytest.mark.parametrize("name", SCRIPT["pages"]())
def test_a_server_s_page_is_up_to_date(name):
    text = SCRIPT["pages"]()[name]
    assert (SCRIPT["FOLDER"] / name).read_text() == text, "run: python docs/reference/providers.py"


def test_the_list_of_servers_is_up_to_date():
    text = SCRIPT["LIST"].read_text()
    assert text == SCRIPT["write_listing"](text), "run: python docs/reference/providers.py"
    assert set(SCRIPT["ABOUT"]) == set(HOSTS) - {"openai"}


def test_the_page_of_models_is_up_to_date():
    assert MODELS["PAGE"].read_text() == MODELS["page"](), "run: python docs/reference/models.py"


def test_the_provider_of_the_page_is_as_short_as_it_is_said_to_be():
    page = (DOCS / "how-to" / "write-a-provider.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    provider, server, _ = code.partition("REPLY = ")
    assert server
    assert len(provider.rstrip().splitlines()) < 100
