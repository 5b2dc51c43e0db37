# SPDX-License-Identifier: Apache-2.0
"""Faults on the wire: whole, and small enough for the server to keep them."""

from __future__ import annotations

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from perdure.model.faults import MESSAGE_LIMIT_BYTES, Fault, FaultClass, FaultKind, Phase
from perdure.policy.shorten import shorten
from perdure.wire import failures
from perdure.wire.converter import data_converter

PENDING_FAILURE_LIMIT_BYTES = 4096
"""Above that the server keeps no more than "Failure exceeds size limit."."""


async def converted(error: BaseException) -> Failure:
    """The error as it is sent, with the traceback that it has when it is raised."""
    failure = Failure()
    try:
        raise error
    except ApplicationError as raised:
        await data_converter().encode_failure(raised, failure)
    return failure


@pytest.mark.parametrize("letter", ['"', "\\", "x", "ü", "€", "😀"])
async def test_the_longest_error_is_kept_whole_by_the_server(letter: str) -> None:
    """Quotes take twice their room in JSON, and an error may consist of them."""
    fault = Fault(
        kind=FaultKind.REGISTRY_NAME_NOT_RESOLVED,
        fault_class=FaultClass.TRANSIENT,
        phase=Phase.PULL,
        message=shorten(letter * 2000, MESSAGE_LIMIT_BYTES),
        hint="h" * 500,
    )
    failure = await converted(failures.pack(fault, 1_000_000))
    assert failure.ByteSize() <= PENDING_FAILURE_LIMIT_BYTES
    assert failure.message == fault.message


async def test_an_expected_failure_has_no_traceback_and_a_bug_has_one() -> None:
    fault = Fault(kind=FaultKind.DISK_FULL, fault_class=FaultClass.TRANSIENT, phase=Phase.PULL, message="no space left")
    assert not (await converted(failures.pack(fault, 1))).stack_trace
    assert "in converted" in (await converted(ApplicationError("a bug"))).stack_trace
