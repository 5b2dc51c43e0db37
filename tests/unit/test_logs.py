# SPDX-License-Identifier: Apache-2.0
"""How log records look, whoever wrote them."""

from __future__ import annotations

import json
import logging
import sys
from typing import Literal

import pytest

from perdure.runtime import logs


def record(message: str, **more: object) -> logging.LogRecord:
    made = logging.getLogger("perdure.test").makeRecord("perdure.test", logging.WARNING, "f", 1, message, (), None)
    made.__dict__.update(more)
    return made


def test_json_has_the_extras_as_keys() -> None:
    shown = json.loads(logs.formatter("json").format(record("part has ended", part="host", pid=7)))
    assert shown.pop("timestamp").endswith("Z")
    assert shown == {"event": "part has ended", "level": "warning", "logger": "perdure.test", "part": "host", "pid": 7}


def failing() -> None:
    """Holds a secret, and fails."""
    password = "s3cr3t"
    raise ValueError(f"broken at {len(password)}")


@pytest.mark.parametrize("kind", ["json", "console"])
def test_exceptions_are_told_without_the_values_of_variables(kind: Literal["json", "console"]) -> None:
    """A secret may be among them."""
    with pytest.raises(ValueError, match="broken") as caught:
        failing()
    shown = logs.formatter(kind).format(record("failed", exc_info=(caught.type, caught.value, caught.tb)))
    assert "ValueError" in shown
    assert "broken at 6" in shown
    assert "s3cr3t" not in shown.replace('password = "s3cr3t"', "")


def test_what_is_for_programs_is_left_out() -> None:
    """The SDK attaches its own object to the lines of its native part."""
    assert "temporal_log" not in logs.formatter("json").format(record("lost", temporal_log=object()))


def test_the_console_has_text_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    shown = logs.formatter("console").format(record("part has ended", part="host"))
    assert "part has ended" in shown
    assert "part=host" in shown
    assert "\x1b" not in shown
