"""The keys of a line editor, as prompt_toolkit has them; those of vi are made once they are used.

By itself an application makes them all, six hundred, and at the first key it copies each for every
condition that it stands under. That takes a twelfth of the time until a first request is sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from prompt_toolkit.application import application
from prompt_toolkit.application.current import get_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding import DynamicKeyBindings, KeyBindingsBase, merge_key_bindings
from prompt_toolkit.key_binding.bindings.basic import load_basic_bindings
from prompt_toolkit.key_binding.bindings.cpr import load_cpr_bindings
from prompt_toolkit.key_binding.bindings.emacs import (
    load_emacs_bindings,
    load_emacs_search_bindings,
    load_emacs_shift_selection_bindings,
)
from prompt_toolkit.key_binding.bindings.mouse import load_mouse_bindings
from prompt_toolkit.key_binding.bindings.vi import load_vi_bindings, load_vi_search_bindings


def load_line_keys() -> KeyBindingsBase:
    """Make the keys of an application in which a line always has the focus."""
    return merge_key_bindings(
        [
            load_basic_bindings(),
            load_emacs_bindings(),
            load_emacs_search_bindings(),
            load_emacs_shift_selection_bindings(),
            DynamicKeyBindings(_find_vi_keys),
            load_mouse_bindings(),
            load_cpr_bindings(),
        ]
    )


def _find_vi_keys() -> KeyBindingsBase | None:
    return _load_vi_keys() if get_app().editing_mode is EditingMode.VI else None


@cache
def _load_vi_keys() -> KeyBindingsBase:
    return merge_key_bindings([load_vi_bindings(), load_vi_search_bindings()])


@contextmanager
def making_line_keys() -> Iterator[None]:
    """Let applications that are made in this block have these keys in place of the usual ones.

    An application can be given more keys, but none in place of those: it makes them by this name.
    Where a later version does that elsewhere, this changes nothing.
    """
    names = vars(application)
    usual = names.get("load_key_bindings")
    names["load_key_bindings"] = load_line_keys
    try:
        yield
    finally:
        names["load_key_bindings"] = usual
