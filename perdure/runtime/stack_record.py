# SPDX-License-Identifier: Apache-2.0
"""What a running stack tells other processes of the same home: ``stack.json``.

It is written before the Temporal server is started, and stays until ``down --purge``. Where that server does not run it tells
only what was: ``read_record`` answers only while the server runs.
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
    """The stack of this home, while its Temporal server runs."""
    record = read_last_record(home)
    return record if record and PidFile(run_folder(home) / f"{TEMPORAL_PART}.pid").running() else None


def read_last_record(home: Path) -> StackRecord | None:
    """The stack of this home, running or not."""
    try:
        return StackRecord.model_validate_json((home / RECORD_FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def write_record(home: Path, record: StackRecord) -> None:
    """Replace the record as a whole, so that no reader sees half of it."""
    fresh = home / f"{RECORD_FILE}.new"
    fresh.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    fresh.replace(home / RECORD_FILE)
