"""Traces, metrics, logs, records and bills of what agents do: one stream, many readers.

`Tracer` is an instrument that turns hooks into spans (`spans`), with what was said in the form of
OpenTelemetry's conventions (`content`, `semconv`), and hands them out (`span_output`); `flow_steps`
knows the steps of plans and workflows. Sinks take them: `TraceFile` writes them beside each session
and `read_trace` reads them back, `diagnose` says what went wrong, and
`prompt_sections` what fills a request (`prompts`); `Metrics` counts them; `JsonLog` logs them;
`OpenTelemetry` hands them to other people's backends.

Other instruments stand alone: `Recorder` writes requests and replies as files, `Ledger` adds up
what was paid, `InvariantCheck` checks the runtime's promises, and `Audit`, which is a gate as well,
writes who let which call run. `Redactor` takes secrets out of whatever leaves. `line_files` has the
writer that several of them share.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)
