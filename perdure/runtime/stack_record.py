# SPDX-License-Identifier: Apache-2.0
"""What a running stack tells other processes of the same home: ``stack.json``.

It exists from the moment the Temporal server answers until ``down``. A record whose server no longer runs is not an answer: a
reader asks ``is_running``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from perdure.model.base import Model
from perdure.runtime.processes import PidFile

RECORD_FILE: Final = "stack.json"
TEMPORAL_PART: Final = "temporal"


class StackRecord(Model):
    """The addresses of one stack."""

    temporal_address: str
    ui_url: str
    fleet: str
    host: str
    podman_url: str


def run_folder(home: Path) -> Path:
    """Where the pid files of a stack are."""
    return home / "run"


def read_record(home: Path) -> StackRecord | None:
    """The record of the stack of this home if its Temporal server runs."""
    try:
        record = StackRecord.model_validate_json((home / RECORD_FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return record if PidFile(run_folder(home) / f"{TEMPORAL_PART}.pid").running() else None


def write_record(home: Path, record: StackRecord) -> None:
    """Replace the record as a whole, so that no reader sees half of it."""
    fresh = home / f"{RECORD_FILE}.new"
    fresh.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    fresh.replace(home / RECORD_FILE)


def remove_record(home: Path) -> None:
    """Forget the stack."""
    (home / RECORD_FILE).unlink(missing_ok=True)
