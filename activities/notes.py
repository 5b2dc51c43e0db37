# SPDX-License-Identifier: Apache-2.0
"""What a try leaves for the next one of the same activity.

It is kept here, and travels in the heartbeat details as well: those outlive the worker, but not every server keeps the ones that
were sent just before a failure. A note that is lost costs one report more, nothing else.
"""

from __future__ import annotations

from temporalio import activity

from perdure.wire.contract import AttemptNote

LIMIT = 10_000
"""Notes kept at most, some 200 bytes each. The oldest one goes first."""

_Key = tuple[str, str]


class Notes:
    """The notes of all activities that failed here and will be tried again."""

    def __init__(self) -> None:
        self._notes: dict[_Key, AttemptNote] = {}

    def take(self, info: activity.Info) -> AttemptNote:
        """The note of the try before; an empty one where there was none."""
        kept = self._notes.pop(_key(info), None)
        if kept is not None:
            return kept
        if info.attempt > 1 and info.heartbeat_details:
            return AttemptNote.model_validate(info.heartbeat_details[0])
        return AttemptNote()

    def leave(self, info: activity.Info, note: AttemptNote) -> None:
        """Leave a note for the next try."""
        self._notes[_key(info)] = note
        if len(self._notes) > LIMIT:
            del self._notes[next(iter(self._notes))]
        activity.heartbeat(note)


def _key(info: activity.Info) -> _Key:
    return info.workflow_run_id or "", info.activity_id
