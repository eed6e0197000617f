"""Declaring checks and facts."""

import pytest

from verl_doctor import docstring
from verl_doctor.api import check, fact
from verl_doctor.registry import Registry, example_facts

DOC = "Something is wrong.\n\nIt matters.\n\nFix: do something.\n\nSee: somewhere 1.0, a.py\n    elsewhere 2.0"


def declared(code, slug):
    def function(thing):
        return []

    function.__doc__ = DOC
    return check(code, slug, tags={"demo"}, good=[{}], bad=[{}])(function).__declared__


@fact(example=lambda plain: list(plain or []))
def thing():
    return []


def test_code_and_slug_are_unique():
    registry = Registry()
    registry.add(declared("DEMO001", "one"))
    with pytest.raises(ValueError, match="DEMO001 is declared twice"):
        registry.add(declared("DEMO001", "two"))
    with pytest.raises(ValueError, match="slug 'one' of DEMO002 is taken"):
        registry.add(declared("DEMO002", "one"))


def test_a_fact_is_declared_once():
    registry = Registry()
    registry.add(thing.__declared__)
    with pytest.raises(ValueError, match="'thing' is declared twice"):
        registry.add(thing.__declared__)


def test_rows_become_typed_facts():
    registry = Registry()
    registry.add(thing.__declared__)
    assert example_facts(declared("DEMO001", "one"), registry, {"thing": (1, 2)}) == {"thing": [1, 2]}
    assert example_facts(declared("DEMO001", "one"), registry, {}) == {"thing": []}
    with pytest.raises(ValueError, match=r"the row has \['other'\]"):
        example_facts(declared("DEMO001", "one"), registry, {"other": 1})


def test_documentation_is_the_docstring():
    documentation = declared("DEMO001", "one").documentation
    assert documentation.title == "Something is wrong."
    assert documentation.why == "It matters."
    assert documentation.fix == "do something."
    assert documentation.see == ["somewhere 1.0, a.py", "elsewhere 2.0"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Only a title.",
        "No full stop\n\nwhy\n\nFix: x",
        "Two.\nlines.\n\nwhy\n\nFix: x",
        "A title.\n\nFix: x",
        "A title.\n\nwhy\n\nmore",
    ],
)
def test_a_docstring_that_breaks_the_grammar_is_refused(text):
    with pytest.raises(ValueError, match="DEMO001"):
        docstring.parse(text, "DEMO001")
