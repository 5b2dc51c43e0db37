# SPDX-License-Identifier: Apache-2.0
"""What a host must not forget while Temporal is away, also over a kill of its worker and a reboot: one small file.

It is replaced as a whole, so a crash leaves the old one or the new one. It is a help and never needed: without it, or where it
cannot be read, the host acts as if nothing had happened before.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from pydantic import AwareDatetime, Field, ValidationError

from perdure.model.base import Model
from perdure.model.observation import LastExit

logger = logging.getLogger(__name__)


class LocalRuns(Model):
    """What the host did with one container by itself. It is written down before it is done, and again when it was done."""

    container_id: str
    incarnation: str
    crashes: int = 0
    """Restarts in a row, on a curve of its own."""
    restarts: int = 0
    """Of which the workload was not told yet."""
    exit: LastExit | None = None
    """How the run before the present one ended, where that is known."""
    answers: LastExit | None = None
    """The end that the latest restart is the answer to; None where the host was restarted."""
    crashes_before: int = 0
    started_at: AwareDatetime | None = None
    """When the latest restart was done; None while only the wish to do it is written down."""


class _Page(Model):
    fleet_id: str = ""
    resting: dict[str, str] = Field(default_factory=dict)
    runs: dict[str, LocalRuns] = Field(default_factory=dict)


class Ledger:
    """The file of one host of one fleet.

    Args:
        path: where it is kept; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._page = _read(path)

    @property
    def fleet_id(self) -> str:
        """Of the Temporal namespace that this host served last, empty where that is not known."""
        return self._page.fleet_id

    @property
    def resting(self) -> dict[str, str]:
        """The workloads whose containers are to stay down, with their incarnation."""
        return self._page.resting

    def runs_of(self, workload: str) -> LocalRuns | None:
        """What was done with the container of a workload."""
        return self._page.runs.get(workload)

    def serve(self, fleet_id: str) -> None:
        """Temporal has told which fleet this is. What was noted for another one means nothing any more."""
        if fleet_id != self.fleet_id:
            self._write(
                _Page(fleet_id=fleet_id) if self.fleet_id else self._page.model_copy(update={"fleet_id": fleet_id})
            )

    def rest(self, workloads: dict[str, str]) -> None:
        """These are to stay down, and no others."""
        if workloads != self.resting:
            self._write(self._page.model_copy(update={"resting": dict(workloads)}))

    def note(self, workload: str, runs: LocalRuns) -> None:
        """The host has restarted a container."""
        self._write(self._page.model_copy(update={"runs": {**self._page.runs, workload: runs}}))

    def forget(self, workload: str, *, resting: bool = False) -> None:
        """What was done is known to the workload, or is of no use any more; with ``resting`` it is not to stay down either."""
        runs = {name: runs for name, runs in self._page.runs.items() if name != workload}
        left = {name: of for name, of in self.resting.items() if name != workload or not resting}
        if (runs, left) != (self._page.runs, self.resting):
            self._write(self._page.model_copy(update={"runs": runs, "resting": left}))

    def _write(self, page: _Page) -> None:
        """Take effect in any case: a disk that is full must not keep a host from acting."""
        self._page = page
        new = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("w", encoding="utf-8") as file:
                file.write(page.model_dump_json())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            logger.warning("the ledger cannot be written", extra={"path": str(self._path), "cause": str(error)})


def _read(path: Path) -> _Page:
    try:
        return _Page.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return _Page()
    except (OSError, ValidationError) as error:
        logger.warning(
            "the ledger cannot be read, and is begun anew",
            extra={"path": str(path), "cause": str(error).split("\n")[0]},
        )
        return _Page()
