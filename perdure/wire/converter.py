# SPDX-License-Identifier: Apache-2.0
"""How values become Temporal payloads: pydantic models as JSON, the same in every process of a fleet."""

from __future__ import annotations

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter


def data_converter() -> DataConverter:
    """The converter that every client and worker must use."""
    return pydantic_data_converter
