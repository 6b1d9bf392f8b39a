"""The page in the browser: its files, and what a browser may do with them.

The page is a client of the API like any other. Nothing is built: the browser gets the modules as
they lie in `page/`, with two libraries among them, whose origin `page/VENDORED` names. What a model
has written never becomes HTML: the policy lets nothing of it run, load or lead elsewhere, and
forbids the page itself to make elements of a text.
"""

from functools import cache
from importlib import resources

import trio

from greenroom.interop.serving.asgi import Reply, Request

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = (
    ("content-security-policy", _POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)


def is_page(request: Request) -> bool:
    """Whether a request is for the page or one of its files, which need no token."""
    return request.method in ("GET", "HEAD") and _name_of(request) is not None


async def show_page(request: Request) -> Reply:
    """Return the file of the page that a request asks for."""
    files = await trio.to_thread.run_sync(read_page)
    name = _name_of(request) or ""
    return Reply(200, files[name], _TYPES[name.rpartition(".")[2]], _HEADERS)


def _name_of(request: Request) -> str | None:
    match request.segments:
        case ("",):
            return "index.html"
        case ("page", name) if name in _list_names():
            return name
    return None


@cache
def _list_names() -> frozenset[str]:
    """List the files that browsers get: not their licences."""
    names = (each.name for each in resources.files(__package__).joinpath("page").iterdir())
    return frozenset(name for name in names if name.rpartition(".")[2] in _TYPES)


@cache
def read_page() -> dict[str, bytes]:
    """Read the files of the page, by their names."""
    folder = resources.files(__package__).joinpath("page")
    return {name: folder.joinpath(name).read_bytes() for name in _list_names()}
