# SPDX-License-Identifier: Apache-2.0
"""How values become Temporal payloads: pydantic models as JSON, the same in every process of a fleet."""

from __future__ import annotations

from dataclasses import replace

from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory


class FaultConverter(DefaultFailureConverter):
    """Leaves out the traceback of what was expected to fail.

    It tells nothing about a registry that is down, stands in the way of the hint in the Web UI, and would take a quarter of the
    4 KiB above which the server drops the text of a pending failure.
    """

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Convert."""
        super().to_failure(exception, payload_converter, failure)
        if isinstance(exception, ApplicationError) and exception.category is ApplicationErrorCategory.BENIGN:
            failure.stack_trace = ""


def data_converter() -> DataConverter:
    """The converter that every client and worker must use."""
    return _CONVERTER


_CONVERTER = replace(pydantic_data_converter, failure_converter_class=FaultConverter)
