"""`calculator`: exact arithmetic; an expression can hold nothing else."""

import operator
import re
from collections.abc import Callable
from fractions import Fraction

from greenroom.core import ToolError
from greenroom.tools.function_tool import tool

_LENGTH = 1_000  # characters of an expression
_LEVELS = 50  # of parentheses, signs and powers
_BITS = 10_000  # of a numerator or denominator; Python writes some 14,000

_TOKEN = re.compile(
    r"\s*+(?:(?P<number>(?:\d{1,3}(?>(?:,\d{3})+)|\d[\d_]*+)?(?:\.\d*+)?(?:[eE][+-]?\d{1,4})?)"
    r"(?>(?P<sign>\*\*|//|[-+*/^%()×÷·−]|of\b)?))"
)
_SAME = {"^": "**", "×": "*", "·": "*", "of": "*", "÷": "/", "−": "-"}
_SUMS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": lambda left, right: Fraction(left // right),
    "%": operator.mod,
}


@tool(category="read", concurrent=True)
async def calculator(expression: str) -> str:
    """Calculate exactly: + - * / // % ** and parentheses, and percentages such as "18% of 250".

    Args:
        expression: The sum, such as "(15 + 3) * 2.5".
    """
    return _format(_Sum(expression).value())


class _Sum:
    """Parses an expression by recursive descent, and evaluates it on the way."""

    def __init__(self, expression: str) -> None:
        if len(expression) > _LENGTH:
            raise ToolError(f"the expression is longer than {_LENGTH} characters")
        self._expression = expression
        self._tokens = _tokens(expression)
        self._at = 0
        self._level = 0

    def value(self) -> Fraction:
        """Evaluate the expression.

        Raises:
            ToolError: it is not a sum, has no value, or too large a one.
        """
        try:
            value = self._terms()
        except ZeroDivisionError as error:
            raise ToolError("division by zero") from error
        if self._next() is not None:
            raise self._make_syntax_error()
        return value

    def _next(self) -> Fraction | str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, *signs: str) -> str:
        """Take the next token if it is one of these signs; else return nothing."""
        token = self._next()
        if isinstance(token, str) and token in signs:
            self._at += 1
            return token
        return ""

    def _make_syntax_error(self) -> ToolError:
        token = self._next()
        found = "its end" if token is None else repr(str(token))
        return ToolError(
            f"{self._expression!r} is not a sum: {found} does not belong there",
            hint="use numbers, + - * / // % ** and parentheses",
        )

    def _terms(self) -> Fraction:
        value = self._factors()
        while sign := self._take("+", "-"):
            value = _check_size(_SUMS[sign](value, self._factors()))
        return value

    def _factors(self) -> Fraction:
        value = self._unary()
        while sign := self._take("*", "/", "//", "%"):
            value = _check_size(_SUMS[sign](value, self._unary()))
        return value

    def _unary(self) -> Fraction:
        self._level += 1
        if self._level > _LEVELS:
            raise ToolError(f"the expression has more than {_LEVELS} levels")
        if sign := self._take("+", "-"):
            value = self._unary()
            value = -value if sign == "-" else value
        else:
            value = self._power()
        self._level -= 1
        return value

    def _power(self) -> Fraction:
        value = self._number()
        while self._is_percent():
            self._at += 1
            value /= 100
        return _power(value, self._unary()) if self._take("**") else value

    def _is_percent(self) -> bool:
        """Whether the next `%` means percent, not remainder: no number follows it."""
        following = self._tokens[self._at + 1 : self._at + 2]
        return self._next() == "%" and not (
            following and (isinstance(following[0], Fraction) or following[0] == "(")
        )

    def _number(self) -> Fraction:
        token = self._next()
        if isinstance(token, Fraction):
            self._at += 1
            return token
        if not self._take("("):
            raise self._make_syntax_error()
        value = self._terms()
        if not self._take(")"):
            raise self._make_syntax_error()
        return value


def _tokens(expression: str) -> list[Fraction | str]:
    tokens: list[Fraction | str] = []
    at, text = 0, expression.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or not (found["number"] or found["sign"]):
            raise ToolError(
                f"{expression!r} is not a sum: "
                f"{text[at:].lstrip()[:20]!r} is neither a number nor a sign",
                hint="use numbers, + - * / // % ** and parentheses",
            )
        if number := found["number"]:
            try:
                tokens.append(_check_size(Fraction(number.replace(",", ""))))
            except ValueError as error:
                raise ToolError(f"{number!r} is not a number") from error
        if sign := found["sign"]:
            tokens.append(_SAME.get(sign, sign))
        at = found.end()
    return tokens


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ToolError("an exponent must be a whole number, since other powers are not exact")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * max(size - 1, 0) > _BITS:
        raise _too_large()
    return _check_size(Fraction(base**exponent.numerator))


def _check_size(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
        raise _too_large()
    return value


def _too_large() -> ToolError:
    return ToolError(
        "a number in it has more than 3,000 digits", hint="calculate with smaller ones"
    )


def _format(value: Fraction) -> str:
    """Write a number as a decimal if that is finite, else as a fraction with an approximation."""
    if value.denominator == 1:
        return str(value.numerator)
    rest, places = value.denominator, 0
    while rest % 10 == 0 or rest % 5 == 0 or rest % 2 == 0:
        rest //= 10 if rest % 10 == 0 else 5 if rest % 5 == 0 else 2
        places += 1
    if rest == 1:
        digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
        sign = "-" if value < 0 else ""
        return f"{sign}{digits[:-places]}.{digits[-places:]}".rstrip("0")
    return f"{value} (about {_approximate(value)})"


def _approximate(value: Fraction) -> str:
    try:
        return f"{float(value):.15g}"
    except OverflowError:
        return "1e308 or more"
