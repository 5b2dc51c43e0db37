# SPDX-License-Identifier: Apache-2.0
"""The base class of every model.

One class serves two readers. On the wire unknown keys are ignored, so that an older host worker survives a newer client.
A user's document is read strictly: the classes of its entries forbid them (``perdure.model.rules.STRICT``). JSON keys are
camelCase, Python names snake_case, and both are accepted on input, but in a user's document.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """An immutable value with camelCase keys in JSON."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
        ser_json_timedelta="iso8601",
    )
