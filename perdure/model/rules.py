# SPDX-License-Identifier: Apache-2.0
"""How a value that a user writes is checked, and what a refusal says.

A refusal is a sentence about what is wrong and, apart from it, a hint about what to write instead: readers show the two on
lines of their own. The classes here are put into ``Annotated[...]`` and carry the same rule into the JSON Schema, so that
an editor and the program never disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, ValidationError, core_schema

STRICT = ConfigDict(extra="forbid", validate_by_name=False, defer_build=True)
"""The configuration of what a user writes: only the known keys, in camelCase. Validators are built at the first use, since
that takes a while and ``--help`` needs none."""

REFUSED = "refused"
"""The pydantic error type of every refusal made here."""


def refusal(message: str, hint: str = "") -> PydanticCustomError:
    """An error to raise in a validator."""
    return PydanticCustomError(REFUSED, "{text}", {"text": message, "hint": hint})


@dataclass(frozen=True, slots=True)
class Misfit:
    """One refusal with its place below the value that is checked."""

    place: tuple[str | int, ...]
    message: str
    hint: str = ""


def refuse_all(title: str, misfits: Iterable[Misfit]) -> None:
    """Raise all of them as one error, each at its own place; does nothing where there are none."""
    details = [
        InitErrorDetails(type=refusal(misfit.message, misfit.hint), loc=misfit.place, input=None) for misfit in misfits
    ]
    if details:
        raise ValidationError.from_exception_data(title, details)


@dataclass(frozen=True, slots=True)
class Matching:
    """A text that must match a pattern as a whole."""

    pattern: str
    rule: str
    """What is allowed, as the end of the sentence "must be ..."."""
    noun: str = "value"
    examples: tuple[str, ...] = ()
    limit: int | None = None
    """The longest text, in characters."""

    def check(self, text: str) -> str:
        """Return the text, or raise a refusal that says the rule."""
        if self.limit is not None and len(text) > self.limit:
            raise refusal(f"{shown(text)} is not a valid {self.noun}: it has {len(text)} characters", self.hint)
        if not re.fullmatch(self.pattern, text):
            raise refusal(f"{shown(text)} is not a valid {self.noun}", self.hint)
        return text

    @property
    def hint(self) -> str:
        """The rule as a sentence."""
        example = f", such as {self.examples[0]}" if self.examples else ""
        return f"a {self.noun} must be {self.rule}{example}"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema) | {"pattern": f"^(?:{self.pattern})$"}
        if self.limit is not None:
            found["maxLength"] = self.limit
        if self.examples:
            found["examples"] = list(self.examples)
        return found


@dataclass(frozen=True, slots=True)
class ShortForm:
    """An object that may be written as one text, or one number, instead."""

    read: Callable[[object], object]
    """Turns what is not an object into the long form, or raises a refusal."""
    form: str
    """The short form in words, such as "[IP:]HOST:CONTAINER[/PROTOCOL]"."""
    examples: tuple[str | int, ...]
    json_type: str = "string"

    def expand(self, value: object) -> object:
        """Read a short form, and let an object pass to the checks of the long form."""
        return value if isinstance(value, (dict, BaseModel)) else self.read(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.expand, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        short = {"type": self.json_type, "description": f"Short form: {self.form}", "examples": list(self.examples)}
        return {"anyOf": [short, handler(schema)]}


def json_type(value: object) -> str:
    """What JSON calls the type of a value."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list() | tuple():
            return "array"
    return "object"


def shown(text: str, limit: int = 60) -> str:
    """A text in quotes for a message, cut where it is long, with what cannot be seen escaped."""
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")
