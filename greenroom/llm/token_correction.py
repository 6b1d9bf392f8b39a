"""Estimates of requests, corrected by the tokens that were reported for earlier ones.

The estimates of one model are off by a factor, and by what its vendor adds to each request. Reports
tell both: their tokens rise with their estimates by the factor.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from greenroom.core import ModelRequest

VISIBLE_OPTIONS = ("tools", "functions", "response_format", "output_config", "mcp_servers")
"""Options of a request whose text the model sees."""


class Habits(msgspec.Struct, frozen=True):
    """How a family of models differs from the estimate.

    Attributes:
        factor: tokens for each estimated one.
        call: tokens around a call, and around its result.
        tool: the factor for definitions of tools.
        prompt: tokens that the vendor adds to a request with tools.
    """

    factor: float = 1.0
    call: float = 7.0
    tool: float = 1.0
    prompt: float = 10.0


_CLAUDE = Habits(factor=1.2, call=28.0, tool=1.9, prompt=420.0)


def habits_of(model: str) -> Habits:
    """Return the habits of a model, by its name."""
    return _CLAUDE if "claude" in model else Habits()


class Setup(msgspec.Struct, frozen=True):
    """The parts of a request besides its messages, as hashes; 0 means nothing.

    Attributes:
        tools: the names of its tools.
        output: the schema of its output, and the options that the model sees.
    """

    tools: int
    output: int

    @classmethod
    def of(cls, request: ModelRequest) -> "Setup":
        """Take them from a request."""
        names = tuple(tool.name for tool in request.tools)
        options = tuple(name for name in VISIBLE_OPTIONS if request.options.get(name))
        output = (request.output.name, *options) if request.output else options
        return cls(hash(names) if names else 0, hash(output) if output else 0)

    @property
    def kind(self) -> tuple[bool, bool]:
        """Whether there are tools, and whether there is anything else."""
        return bool(self.tools), bool(self.output)


class Estimate(msgspec.Struct, frozen=True):
    """The estimate of a request.

    Attributes:
        total: the estimated tokens.
        sums: 0, the tokens of its first message, of its first two, and so on.
        setup: the other parts of the request.
    """

    total: float
    sums: Sequence[float]
    setup: Setup


class ReportedUsage(msgspec.Struct, frozen=True):
    """The estimate of a request, and the tokens that it took.

    Attributes:
        estimate: the estimated tokens.
        tokens: the reported tokens.
        setup: the parts of the request besides its messages.
        length: the number of its messages.
        sum: the estimated tokens of its messages.
    """

    estimate: float
    tokens: int
    setup: Setup
    length: int
    sum: float


_REPORTS = 16
_SPREAD = 100.0**2  # the spread of estimates at which their factor counts as much as the usual one


class _Slope(msgspec.Struct):
    """How the tokens of the reports of one setup rise with their estimates, as sums over them."""

    count: int = 0
    estimates: float = 0.0
    tokens: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def add(self, report: ReportedUsage, sign: int) -> None:
        """Add a report, or take it away with a sign of -1."""
        self.count += sign
        self.estimates += sign * report.estimate
        self.tokens += sign * report.tokens
        self.squares += sign * report.estimate * report.estimate
        self.products += sign * report.estimate * report.tokens


class Correction(msgspec.Struct):
    """Corrects estimates by the reports of one model."""

    habits: Habits
    reports: deque[ReportedUsage] = msgspec.field(default_factory=deque)
    slopes: dict[Setup, _Slope] = msgspec.field(default_factory=dict)
    known_factor: float | None = None
    """The factor, until the next report."""

    def add(self, report: ReportedUsage) -> None:
        """Learn from a report, and forget the oldest one."""
        self.reports.append(report)
        self.slopes.setdefault(report.setup, _Slope()).add(report, 1)
        if len(self.reports) > _REPORTS:
            oldest = self.reports.popleft()
            slope = self.slopes[oldest.setup]
            slope.add(oldest, -1)
            if not slope.count:
                del self.slopes[oldest.setup]
        self.known_factor = None

    def factor(self) -> float:
        """Return tokens per estimated one: the slope among the reports of each setup.

        The closer together the reports are, the more it is the usual factor.
        """
        if self.known_factor is None:
            self.known_factor = self._find_factor()
        return self.known_factor

    def _find_factor(self) -> float:
        usual = self.habits.factor
        spread, joint = _SPREAD, _SPREAD * usual
        for each in self.slopes.values():
            spread += each.squares - each.estimates * each.estimates / each.count
            joint += each.products - each.estimates * each.tokens / each.count
        return min(max(joint / spread, usual / 3), usual * 3)

    def tokens_of(self, estimate: Estimate) -> int:
        """Return the corrected estimate as a number of tokens."""
        return max(1, round(self.correct(estimate)))

    def correct(self, estimate: Estimate) -> float:
        """Start from the report that this request extends, else from the mean of similar ones."""
        if nearest := self._find_nearest(estimate):
            return nearest.tokens + self.factor() * (estimate.total - nearest.estimate)
        setup = estimate.setup
        same = [report for report in self.reports if report.setup == setup]
        alike = same or [each for each in self.reports if each.setup.kind == setup.kind]
        if not alike:
            prompt = self.habits.prompt if setup.tools else 0.0
            return 3.0 + prompt + estimate.total * self.factor()
        middle, mean = _means(alike)
        return mean + self.factor() * (estimate.total - middle)

    def _find_nearest(self, estimate: Estimate) -> ReportedUsage | None:
        """Return the report of the longest request that this one extends.

        That is one of the same setup, of which the first messages here weigh as much. It is looked
        for with each request, so without a call for each report; the last one is it mostly.
        """
        nearest, most = None, -1
        for report in reversed(self.reports):
            at = report.length
            is_beginning = most < at < len(estimate.sums) and estimate.sums[at] == report.sum
            if is_beginning and report.setup == estimate.setup:
                nearest, most = report, at
        return nearest


def _means(reports: Sequence[ReportedUsage]) -> tuple[float, float]:
    estimates = [report.estimate for report in reports]
    tokens = [report.tokens for report in reports]
    return sum(estimates) / len(reports), sum(tokens) / len(reports)
