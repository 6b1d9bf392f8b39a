"""What an evaluation has found: rows, as a table, in a file, beside an earlier evaluation."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Self

import msgspec
from typing_extensions import TypeVar

from greenroom.core import ContentBlock, Message, Usage
from greenroom.core._internal import ConfigurationFileError, InvalidJSONError, Wire, serde, visible
from greenroom.fs import durable

ExpectedT = TypeVar("ExpectedT", default=None)

_FORMAT = 1
_WIDEST = 40  # characters of a case's name in a table


@dataclass(frozen=True)
class Case(Generic[ExpectedT]):
    """An input for an agent, and what is expected of its answer.

    Attributes:
        input: a text, or content blocks.
        name: its name in tables and files; by default the beginning of the input.
        expected: for the checks; nothing else reads it.
    """

    input: str | Sequence[ContentBlock]
    name: str = ""
    expected: ExpectedT = None  # type: ignore[assignment]  # the default of ExpectedT


class EvaluationRow(Wire, frozen=True):
    """One run of one case.

    Attributes:
        case: the name of the case.
        number: which run of the case it is, from 1.
        scores: what each check returned, by the check's name: whether it passed, or a score.
        error: what kept the run or a check from its end; empty if nothing did.
        is_finished: whether it had time and money: False if the budget of the evaluation ended
            first.
        text: the last text that the model wrote.
        usage: the tokens of the run.
        steps: how many model calls the agent began.
        seconds: how long the run took, without its checks.
        messages: what was said and done; not in files.
    """

    case: str
    number: int = 1
    scores: dict[str, bool | float] = {}  # msgspec copies it
    error: str = ""
    is_finished: bool = True
    text: str = ""
    usage: Usage = Usage()
    steps: int = 0
    seconds: float = 0.0
    messages: tuple[Message, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether it came to its end without an error, and no check returned False.

        A score that is a number fails nothing.
        """
        return (
            self.is_finished
            and not self.error
            and all(score is not False for score in self.scores.values())
        )


class Evaluation(Wire, frozen=True):
    """The rows of an evaluation, in the order of its cases; `evaluate` makes it.

    Example:
        >>> rows = [EvaluationRow("sum", at, {"exact": at == 1}) for at in (1, 2)]
        >>> evaluation = Evaluation(tuple(rows))
        >>> print(evaluation.table())
        case  passed  exact
        sum      1/2   0.50
        >>> evaluation.passed
        False
    """

    rows: tuple[EvaluationRow, ...]

    @property
    def passed(self) -> bool:
        """Whether there is a row, and every run of every case passed."""
        return bool(self.rows) and all(row.passed for row in self.rows)

    def regressions(self, earlier: "Evaluation") -> tuple[str, ...]:
        """Name the cases of which a smaller share of runs passed than earlier, in order.

        Runs that had no time or money count for neither, and cases that only one of them has are
        left out.
        """
        now, before = (
            _by_case(row for row in each.rows if row.is_finished) for each in (self, earlier)
        )
        return tuple(
            name
            for name, rows in now.items()
            if name in before and _share(rows) < _share(before[name])
        )

    def table(self, earlier: "Evaluation | None" = None) -> str:
        """Draw a table: a line for each case, one for all if there are several, then the errors.

        A case shows how many of its runs passed, and the mean of each check, in which a passed one
        counts as 1. Runs that did not come to a check are not in its mean. Characters that a
        terminal would obey are written out.

        Args:
            earlier: an evaluation to compare with: where a figure was another one, it stands in
                brackets.
        """
        before = _by_case(earlier.rows) if earlier else {}
        checks = tuple(dict.fromkeys(check for row in self.rows for check in row.scores))
        cases = _by_case(self.rows)
        lines = [("case", "passed", *checks)]
        lines += [_line(name, rows, before.get(name), checks) for name, rows in cases.items()]
        if len(cases) > 1:
            lines.append(_line("all", self.rows, earlier.rows if earlier else None, checks))
        return "\n".join([*_align(lines), *_list_errors(self.rows)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file as JSON, whole or not at all, for `load`. It blocks for the writing.

        Messages are left out: what tools returned may be large, or secret. Texts are in it.

        Raises:
            OSError: it can't be written; a file that was there is in place.
        """
        rows = [msgspec.structs.replace(row, messages=()) for row in self.rows]
        data = serde.encode(_File(_FORMAT, tuple(rows)))
        durable.write_file(os.fspath(path), msgspec.json.format(data, indent=2) + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` has written. It blocks for the reading.

        Raises:
            FileNotFoundError: there is no such file.
            ConfigurationError: the file is not an evaluation, or one of a newer version.
        """
        data, name = Path(path).read_bytes(), os.fspath(path)
        try:
            found = serde.decode(data, _Format).format
            if found > _FORMAT:  # whose rows may be others
                raise ConfigurationFileError(
                    f"has format {found}, and this version reads {_FORMAT}",
                    path=name,
                    hint="upgrade greenroom",
                )
            return cls(serde.decode(data, _File).rows)
        except InvalidJSONError as error:
            raise ConfigurationFileError(
                f"is not an evaluation: {error.message}", path=name, hint="write it by save()"
            ) from error


class _Format(Wire, frozen=True):
    format: int


class _File(_Format, frozen=True):
    rows: tuple[EvaluationRow, ...]


def _by_case(rows: Iterable[EvaluationRow]) -> dict[str, list[EvaluationRow]]:
    found: dict[str, list[EvaluationRow]] = {}
    for row in rows:
        found.setdefault(row.case, []).append(row)
    return found


def _share(rows: Sequence[EvaluationRow]) -> float:
    """Return the share of runs that passed."""
    return sum(row.passed for row in rows) / len(rows)


def _line(
    name: str,
    rows: Sequence[EvaluationRow],
    before: Sequence[EvaluationRow] | None,
    checks: Sequence[str],
) -> tuple[str, ...]:
    figures = _figures(rows, checks)
    if before:
        was = _figures(before, checks)
        figures = [
            now if now == then else f"{now} ({then})"
            for now, then in zip(figures, was, strict=True)
        ]
    return (_shorten(name), *figures)


def _figures(rows: Sequence[EvaluationRow], checks: Sequence[str]) -> list[str]:
    """Write how many passed, and the mean of each check."""
    return [f"{sum(row.passed for row in rows)}/{len(rows)}", *(_mean(rows, at) for at in checks)]


def _mean(rows: Sequence[EvaluationRow], check: str) -> str:
    scores = [row.scores[check] for row in rows if check in row.scores]
    return f"{sum(scores) / len(scores):.2f}" if scores else "-"


def _list_errors(rows: Iterable[EvaluationRow]) -> list[str]:
    return [
        f"{_shorten(row.case)}, run {row.number}: {visible(row.error)}" for row in rows if row.error
    ]


def _align(lines: Sequence[Sequence[str]]) -> list[str]:
    """Pad the cells of each column: names to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join([name.ljust(widths[0]), *map(str.rjust, figures, widths[1:])]).rstrip()
        for name, *figures in lines
    ]


def _shorten(name: str) -> str:
    name = visible(name)
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…"
