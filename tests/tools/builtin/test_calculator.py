"""The calculator: exact, bounded, and deaf to anything that is not a sum."""

import re
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, ToolStatus
from greenroom.tools import ToolRegistry, builtin_tools, calculator

CONTEXT = AgentContext(session_id="s-1", agent_type="test")


async def calculate(expression):
    return await ToolRegistry([calculator]).execute(
        "calculator", {"expression": expression}, CONTEXT
    )


async def test_it_is_off_by_default_and_changes_nothing():
    assert "calculator" not in [tool.name for tool in builtin_tools()]
    assert (calculator.category, calculator.concurrent) == ("read", True)
    result = await calculate("2+2")
    assert (result.status, result.text) == (ToolStatus.SUCCESS, "4")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("15 * 3", "45", marks=pytest.mark.checkpoint("1.4 a calculator")),
        ("18% of 250", "45"),
        ("18 % of 250", "45"),
        ("250 * 18%", "45"),
        ("0.18*250", "45"),
        ("0.1 + 0.2", "0.3"),
        ("1/3", "1/3 (about 0.333333333333333)"),
        ("10/4 - 1/8", "2.375"),
        ("-1/8", "-0.125"),
        ("7 % 3", "1"),
        ("7 % (1 + 1)", "1"),
        ("-7 // 2", "-4"),
        ("2 ** -2", "0.25"),
        ("2**3**2", "512"),
        ("-2 ^ 2", "-4"),
        ("(1 + 2) × (3 − 4) ÷ 2", "-1.5"),
        ("1,000 * 2_000", "2000000"),
        ("1.5e3 + .5", "1500.5"),
        ("--3", "3"),
        ("2**100", str(2**100)),
        ("1e999 / 7", f"{10**999}/7 (about 1e308 or more)"),
    ],
)
async def test_it_is_exact(expression, value):
    assert (await calculate(expression)).text == value


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "its end does not belong there"),
        ("1 / 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("1 % 0", "division by zero"),
        ("__import__('os').system('ls')", "neither a number nor a sign"),
        ("(1).real", "not a number"),
        ("1 2", "'2' does not belong there"),
        ("(((", "its end does not belong there"),
        ("2 ** 0.5", "not exact"),
        ("9**9**9", "3,000 digits"),
        ("1e9999 * 1", "3,000 digits"),
        ("9" * 990 + "**9", "3,000 digits"),
        ("(" * 400, "50 levels"),
        ("-" * 900 + "1", "50 levels"),
        ("1+" * 600, "1000 characters"),
        (".", "not a number"),
    ],
)
async def test_what_is_no_sum_is_told(expression, reason):
    result = await calculate(expression)
    assert result.is_error
    assert reason in result.text


numbers = st.integers(0, 10**6).map(str) | st.decimals(
    0, 1000, places=3, allow_nan=False, allow_infinity=False
).map(lambda number: f"{number:f}")
sums = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(
        lambda t: "(" + " ".join(t) + ")"
    ),
    max_leaves=8,
)


@given(sums)
async def test_it_agrees_with_fractions(text):
    python = re.sub(r"[\d.]+", lambda found: f"Fraction('{found[0]}')", text)
    try:
        expected = eval(python, {"Fraction": Fraction})
    except ZeroDivisionError:
        assert "division by zero" in (await calculate(text)).text
        return
    found = (await calculate(text)).text.partition(" ")[0]
    assert Fraction(found) == expected


@given(st.text("0123456789.eE,_+-*/%()^ of×−", max_size=60) | st.text(max_size=60))
async def test_nothing_crashes_it(text):
    assert (await calculate(text)).could_run
