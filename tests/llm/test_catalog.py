"""What is known of models: facts with their sources, and unknown where there are none."""

from datetime import date

import pytest
from msgspec.structs import fields

from greenroom.llm import OpenAIProvider, model_profile
from greenroom.llm._internal import MODELS, VENDORS, ModelProfile
from greenroom.llm.catalog import ABILITIES


@pytest.mark.parametrize("model", MODELS.values(), ids=str)
def test_each_row_says_where_and_when_it_was_looked_up_and_guesses_nothing(model):
    vendor, _, name = model.name.partition(":")
    assert vendor in VENDORS
    assert name
    assert model.sources
    assert all(source.startswith("https://") for source in model.sources)
    assert isinstance(model.looked_up, date)
    assert model.context_window is None or model.context_window >= 1000
    assert model.max_output_tokens is None or 0 < model.max_output_tokens <= model.context_window


def test_there_are_no_prices():
    assert not [field.name for field in fields(ModelProfile) if "price" in field.name]


def test_a_model_that_is_not_listed_is_unknown_in_all_and_works():
    profile = model_profile("ollama:llama3.2")
    assert profile == ModelProfile(name="ollama:llama3.2")
    assert set(profile.abilities.values()) == {None}
    assert tuple(profile.abilities) == ABILITIES


@pytest.mark.parametrize("date", ["-20260630", "-2026-06-30"])
def test_a_snapshot_has_the_facts_of_its_model_and_its_own_name(date):
    name = f"anthropic:claude-sonnet-5{date}"
    snapshot = model_profile(name)
    assert snapshot.name == name
    assert snapshot.context_window == MODELS["anthropic:claude-sonnet-5"].context_window


def test_a_provider_is_looked_up_by_its_own_name_and_model():
    remote = OpenAIProvider("gpt-4o", api_key="k", env={})
    local = OpenAIProvider("gpt-4o", base_url="http://localhost:11434/v1", env={})
    assert model_profile(remote).context_window == 128_000
    assert model_profile(local).context_window is None
