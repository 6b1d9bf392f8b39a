"""Structured output: facts from a text, as a validated value.

    python examples/structured_output.py

The model is scripted, so this needs no API key. Its first answer is wrong.
"""

from typing import Annotated

import trio
from pydantic import BaseModel, Field

import greenroom as gr
from greenroom import ModelRequest
from greenroom.llm import ModelOutputError, generate_structured
from greenroom.testing import ScriptedProvider

NOTE = "Invoice 4711. Ink, 2 at 12.50. Paper, 10 at 4.00. Please pay by 2026-12-01."


class Item(BaseModel):
    """One line of an invoice."""

    name: str
    count: Annotated[int, Field(ge=1)]
    price: Annotated[float, Field(ge=0, description="of one piece, in euros")]


class Invoice(BaseModel):
    """An invoice to pay."""

    number: str
    items: list[Item]

    @property
    def total(self) -> float:
        """The sum of all items."""
        return sum(item.count * item.price for item in self.items)


FIRST = '{"number": 4711, "items": [{"name": "Ink", "count": 0, "price": 12.5}]}'
SECOND = """{"number": "4711", "items": [
    {"name": "Ink", "count": 2, "price": 12.5}, {"name": "Paper", "count": 10, "price": 4.0}
]}"""


async def main() -> None:
    """Read an invoice, then give up on an answer without one."""
    request = ModelRequest(messages=[gr.Message.user(NOTE)], system="Read the invoice.")
    llm = ScriptedProvider(FIRST, SECOND)
    invoice = await generate_structured(llm, request, Invoice)
    print(f"invoice {invoice.number}: {len(invoice.items)} items, {invoice.total:.2f} euros")
    print("the model was told:", *llm.requests[1].messages[-1].text.splitlines(), sep="\n  ")
    try:
        await generate_structured(
            ScriptedProvider("It is an invoice."), request, Invoice, retries=0
        )
    except ModelOutputError as error:
        print("gave up:", error.errors[0])


if __name__ == "__main__":
    trio.run(main)
