# SPDX-License-Identifier: Apache-2.0
"""How values become Temporal payloads: pydantic models as JSON, the same in every process of a fleet."""

from __future__ import annotations

from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import CompositePayloadConverter, DataConverter, DefaultFailureConverter, PayloadConverter
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


_PAYLOADS = PydanticPayloadConverter()


class SharedPayloadConverter(CompositePayloadConverter):
    """The SDK makes a converter for each workflow run; all of ours share what pydantic works out for a type.

    Else each workload would have its own, for 0.5 ms and some 10 KiB a type.
    """

    def __init__(self) -> None:
        """As the SDK makes it, without an argument."""
        super().__init__(*_PAYLOADS.converters.values())


_CONVERTER = DataConverter(payload_converter_class=SharedPayloadConverter, failure_converter_class=FaultConverter)
