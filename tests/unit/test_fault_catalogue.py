# SPDX-License-Identifier: Apache-2.0
"""Every kind of fault is in the catalogue, in the docs, and tells what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perdure.model.catalogue import CATALOGUE, WORDS, as_markdown, make_fault
from perdure.model.faults import FaultClass, FaultKind, Phase

PAGE = Path(__file__).parents[2] / "docs/reference/faults.md"


def test_every_kind_is_in_the_catalogue() -> None:
    """A kind without class and hint would fail at the worst moment."""
    assert set(CATALOGUE) == set(FaultKind)


def test_the_page_is_up_to_date() -> None:
    """Write it anew with ``make docs``."""
    assert PAGE.read_text() == as_markdown()


@pytest.mark.parametrize("kind", list(FaultKind))
def test_a_hint_is_whole_without_any_words(kind: FaultKind) -> None:
    """The text of an error does not always tell the port, the path or the name."""
    fault = make_fault(kind, CATALOGUE[kind].phases[0], "it failed")
    assert fault.hint
    assert "{" not in fault.hint
    assert fault.fault_class is CATALOGUE[kind].fault_class


def test_hints_use_known_words_only() -> None:
    """A word that has no general form would break the hint."""
    for entry in CATALOGUE.values():
        assert set(re.findall(r"{(\w+)}", entry.hint)) <= set(WORDS)


def test_a_hint_names_what_the_error_named() -> None:
    """The port, not just "the port"."""
    fault = make_fault(FaultKind.PORT_IN_USE, Phase.START, "address already in use", port="8080")
    assert "8080" in fault.hint


def test_only_what_a_manifest_alone_can_cure_is_permanent() -> None:
    """Everything else may vanish by itself or by somebody's hand on the host, and is tried again for ever."""
    permanent = {kind for kind, entry in CATALOGUE.items() if entry.fault_class is FaultClass.PERMANENT}
    assert permanent == {
        FaultKind.INVALID_IMAGE_NAME,
        FaultKind.SHORT_IMAGE_NAME,
        FaultKind.WRONG_ARCHITECTURE,
        FaultKind.COMMAND_NOT_FOUND,
        FaultKind.COMMAND_NOT_EXECUTABLE,
        FaultKind.USER_NOT_FOUND,
        FaultKind.WORKING_DIR_NOT_FOUND,
        FaultKind.INVALID_OPTION,
        FaultKind.SUPERSEDED,
    }
