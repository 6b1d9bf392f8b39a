"""The built-in tools: what a coding agent needs to work in a folder.

Modules, by tool: `bash` (`environment`, `output_buffer`); `read` (`numbered_lines`); `write` and
`edit` (`atomic_file`, `text_file`, `text_diff`, `replacement`, `path_locks`); `glob` and `grep`
(`file_tree`, `gitignore`, `glob_pattern`, `file_filter`, `ripgrep`, `searcher`, `grep_schema`,
`grep_rows`); `todo`; `web_fetch` (`fetch`, `page`, `html_text`). For all of them: `paths` (where
they may go), `file_stamps` (what they have seen) and `arguments`. No part of `builtin_tools()`, to be
passed by name: `calculation`, `search`, and `python_program`, which has `command` in common with `bash`.
"""
