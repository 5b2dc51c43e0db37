# SPDX-License-Identifier: Apache-2.0
"""What a running stack tells other processes of the same home: ``stack.json``.

It is written before the Temporal server is started, and stays until ``down --purge``. Where that server does not run it tells
only what was: ``read_record`` answers only while the server runs.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from perdure.model.base import Model
from perdure.runtime.processes import PidFile

RECORD_FILE: Final = "stack.json"
TEMPORAL_PART: Final = "temporal"
CONTROL_PART: Final = "control"
HOST_PART: Final = "host"
SUPERVISOR: Final = "supervisor"
SUPERVISOR_LOCK: Final = "supervisor.lock"
"""In the run folder; held for as long as a supervisor lives."""


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


def pid_file_of(home: Path, part: str) -> PidFile:
    """Where the process of a part is written down, or that of the supervisor."""
    return PidFile(run_folder(home) / f"{part}.pid")


def owner_of(home: Path) -> str | None:
    """Whose stack is in a home, where it is not ours; None where it is, or there is none."""
    try:
        uid = run_folder(home).stat().st_uid
    except OSError:
        return None
    if uid == os.geteuid():
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def read_record(home: Path) -> StackRecord | None:
    """The stack of this home, while its Temporal server runs."""
    record = read_last_record(home)
    return record if record and pid_file_of(home, TEMPORAL_PART).running() else None


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
