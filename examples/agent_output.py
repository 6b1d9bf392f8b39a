"""Structured output: a run returns a validated value, and a wrong answer is asked for again."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from greenroom import Agent
from greenroom.llm import ModelOutputError
from greenroom.testing import ScriptedProvider


class Review(BaseModel):
    """What a reader thinks of a book."""

    title: str
    stars: Annotated[int, Field(ge=1, le=5, description="one to five")]
    mood: Literal["pleased", "bored", "angry"]


answers = (
    '{"title": "Emma", "stars": 9, "mood": "pleased"}',
    '{"title": "Emma", "stars": 5, "mood": "pleased"}',
)
reader = Agent(ScriptedProvider(*answers), output_type=Review)  # or "openai:gpt-5.4"
result = reader.run_sync("Emma was wonderful, nine stars!")
print(result.output.stars, result.output.mood, result.steps)

stubborn = Agent(ScriptedProvider("Nine stars!"), output_type=Review, output_retries=0)
try:
    print(stubborn.run_sync("Emma was wonderful!").output)
except ModelOutputError as error:
    print(error.errors[0])
