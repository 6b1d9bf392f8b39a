"""What type checkers see of structured answers; checked by mypy, never run."""

from dataclasses import dataclass
from typing import TypedDict, assert_type

from greenroom import LLMProvider
from greenroom.llm import ModelRequest, generate_structured
from greenroom.llm._internal import OutputType


@dataclass
class City:
    """A type of answers."""

    name: str


class Trip(TypedDict):
    """Another one."""

    stops: list[City]


async def an_answer_has_the_type_that_was_asked_for(llm: LLMProvider, ask: ModelRequest) -> None:
    assert_type(await generate_structured(llm, ask, City), City)
    assert_type(await generate_structured(llm, ask, Trip, retries=0), Trip)
    assert_type(await generate_structured(llm, ask, list[City]), list[City])
    assert_type(await generate_structured(llm, ask, int | str), int | str)
    assert_type(await generate_structured(llm, ask, City | None), City | None)


async def so_has_that_of_a_schema_made_before(llm: LLMProvider, ask: ModelRequest) -> None:
    output = OutputType(list[City])
    assert_type(output.validate({}), list[City])
    assert_type(await generate_structured(llm, ask, output), list[City])
    await generate_structured(llm, ask, 7)  # type: ignore[call-overload]
