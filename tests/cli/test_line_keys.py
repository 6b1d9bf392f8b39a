"""The keys of the input line are those of any application of prompt_toolkit."""

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from greenroom.cli.line_keys import making_line_keys


def make_application(mode):
    layout = Layout(Window(BufferControl()))
    return Application(layout, editing_mode=mode, input=DummyInput(), output=DummyOutput())


def bindings_of(application, *, is_active):
    """Return what is bound to which keys, in the order in which it counts."""
    with set_app(application):
        return [
            (each.keys, each.handler.__module__, each.handler.__qualname__)
            for each in application._default_bindings.bindings
            if not is_active or each.filter()
        ]


@pytest.mark.parametrize("mode", EditingMode)
def test_a_line_has_the_usual_keys(mode):
    with making_line_keys():
        application = make_application(mode)
    usual = bindings_of(make_application(mode), is_active=True)
    assert bindings_of(application, is_active=True) == usual


def test_the_keys_of_vi_are_made_once_they_are_used():
    with making_line_keys():
        application = make_application(EditingMode.EMACS)
    usual = bindings_of(make_application(EditingMode.EMACS), is_active=False)
    before = bindings_of(application, is_active=False)
    assert len(before) < len(usual) / 2
    application.editing_mode = EditingMode.VI
    assert bindings_of(application, is_active=False) == usual
    application.editing_mode = EditingMode.EMACS
    assert bindings_of(application, is_active=False) == before


def test_other_applications_keep_their_own():
    usual = bindings_of(make_application(EditingMode.EMACS), is_active=False)
    with pytest.raises(ZeroDivisionError), making_line_keys():
        raise ZeroDivisionError
    assert bindings_of(make_application(EditingMode.EMACS), is_active=False) == usual
