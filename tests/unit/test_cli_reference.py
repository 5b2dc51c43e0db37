# SPDX-License-Identifier: Apache-2.0
"""The reference page of the command line says what the commands say."""

from __future__ import annotations

from docs.reference.generate_cli import COMMAND, PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"write it anew: {COMMAND}"
