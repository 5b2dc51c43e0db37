# SPDX-License-Identifier: Apache-2.0
"""The settings of every Perdure process: ``PERDURE_*`` variables, then ``perdure.toml`` here, then ``perdure.toml`` in the home.

The only module that reads the environment. How Temporal is reached is not in here: that is Temporal's own configuration
(``TEMPORAL_*`` and temporal.toml), which its other tools read too, see ``perdure.runtime.connect``.
"""

from __future__ import annotations

import os
import re
import socket
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, AliasGenerator, BeforeValidator, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from perdure.model.values import Duration, format_duration
from perdure.runtime.problems import SettingsProblem

ENV_PREFIX: Final = "PERDURE_"
FILE_NAME: Final = "perdure.toml"
HOME_VARIABLE: Final = "PERDURE_HOME"
DEFAULT_HOME: Final = "~/.local/state/perdure"
UNIX_SOCKET_LIMIT_BYTES: Final = 107
"""The longest path that Linux takes for a Unix socket."""
_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def _socket_url(value: str) -> str:
    """An absolute path or a ``unix://`` URL, as a URL; empty stays empty."""
    if not value:
        return ""
    scheme, separator, path = value.rpartition("://")
    if separator and scheme not in ("unix", "http+unix"):
        raise ValueError(
            f"{scheme}:// is not supported: write the path of a Unix socket, such as /run/podman/podman.sock"
        )
    if not path.startswith("/"):
        raise ValueError(f"{value!r} is not an absolute path: write it from the root, such as /run/podman/podman.sock")
    if len(os.fsencode(path)) > UNIX_SOCKET_LIMIT_BYTES:
        raise ValueError(f"the path is longer than the {UNIX_SOCKET_LIMIT_BYTES} bytes that a Unix socket may have")
    return f"unix://{path}"


def _host_name(value: str) -> str:
    if value and not _HOST.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a host name: write 1 to 63 lower-case letters, digits and hyphens, not at the ends"
        )
    return value


def _fleet_name(value: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", value):
        raise ValueError(f"{value!r} is not the name of a fleet: write letters, digits, dots, underscores and hyphens")
    return value


def _resync_interval(value: timedelta) -> timedelta:
    if not timedelta(seconds=10) <= value <= timedelta(days=1):
        raise ValueError(f"{format_duration(value)} is not between 10s and 1d: write, for example, 5m")
    return value


def _absolute(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("it is empty: write a directory, or leave it unset")
    return Path(value).expanduser().absolute() if isinstance(value, str | Path) else value


class Settings(BaseSettings):
    """What a person may set. Keys in perdure.toml are written like those of a manifest, for example ``giveUpAfter``."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        validate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=None, serialization_alias=to_camel),
        use_attribute_docstrings=True,
    )

    home: Annotated[Path, BeforeValidator(_absolute)] = Field(default=Path(DEFAULT_HOME), validate_default=True)
    """Where the embedded stack keeps its state, and a host worker its lock and the files of its workloads."""
    fleet: Annotated[str, AfterValidator(_fleet_name)] = ""
    """The Temporal namespace. Empty takes that of Temporal's own configuration, else ``default``."""
    podman: Annotated[str, AfterValidator(_socket_url)] = ""
    """The Podman socket, as a path or a unix:// URL. Empty looks in the usual places."""
    host: Annotated[str, AfterValidator(_host_name)] = ""
    """The name of this host. Empty takes the machine's own name."""
    give_up_after: Duration | None = None
    """How long a failing workload is tried where its manifest says nothing; unset is for ever."""
    start_slots: Annotated[int, Field(ge=1, le=64)] = 4
    """How many containers a host makes or starts at once. More than four make each start slower (measured on 2 cores)."""
    pull_slots: Annotated[int, Field(ge=1, le=64)] = 5
    """How many images a host pulls at once, by first tries and by retries each. A pull that is silent lends its slot out."""
    wake_on_recovery: bool = True
    """Whether a host asks a registry that failed every few seconds whether it answers again, and then tries at once."""
    healthchecks: Literal["auto", "worker", "podman"] = "auto"
    """Who runs the healthchecks of a host's containers: the ``worker``, or ``podman`` by its systemd timers. ``auto`` leaves them
    to Podman where the machine was booted with systemd."""
    resync_interval: Annotated[Duration, AfterValidator(_resync_interval)] = timedelta(minutes=5)
    """How often a host drops what it believes and looks at everything anew, give or take 20 %."""
    temporal_port: Annotated[int, Field(ge=0, le=65535)] = 7233
    """Where the embedded Temporal server listens, on the loopback address only; 0 takes a free one."""
    ui_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Where the embedded Web UI listens; unset is the port of Temporal plus 1000, 0 takes a free one."""
    log_format: Literal["auto", "console", "json"] = "auto"
    """``auto`` is for people on a terminal and JSON elsewhere."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important records that are shown."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then variables, then the files: what comes first wins."""
        return (init_settings, env_settings, *(_File(settings_cls, file) for file in _files()))

    @classmethod
    def load(cls, **overrides: Any) -> Self:
        """Read all sources.

        Raises:
            SettingsProblem: a source cannot be read or holds a wrong value; the message says which.
        """
        try:
            return cls(**overrides)
        except ValidationError as error:
            raise _problem(error, overrides) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsProblem(
                f"{_unreadable_file() or FILE_NAME} cannot be read: {error}", "Correct the file, or move it away."
            ) from None

    @property
    def host_name(self) -> str:
        """The name of this host: as set, else the machine's own name made valid."""
        return self.host or valid_host_name(socket.gethostname())

    def as_environment(self) -> dict[str, str]:
        """The variables that give a child the same settings, wherever it works. What is a default here is one there."""
        values = self.model_dump(mode="json", by_alias=False, exclude_unset=True) | {"home": self.home}
        return {(ENV_PREFIX + name).upper(): str(value) for name, value in values.items() if value not in ("", None)}


class _File(TomlConfigSettingsSource):
    """One perdure.toml, with the keys of a manifest (camelCase) or of the variables (snake_case)."""

    def __call__(self) -> dict[str, Any]:
        return {_snake(key): value for key, value in super().__call__().items()}


def valid_host_name(machine: str) -> str:
    """Make a valid host name of a machine's own name: its first label, in lower case.

    >>> valid_host_name("Kiosk_7.example.com")
    'kiosk-7'
    """
    label = re.sub(r"[^a-z0-9]+", "-", machine.lower().split(".")[0])[:63].strip("-")
    return label or "localhost"


def _files() -> list[Path]:
    """The files that exist, the stronger one first. A home set in a file would be a riddle, so only the variable counts."""
    home = Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).expanduser()
    return [file for file in dict.fromkeys((Path.cwd() / FILE_NAME, home.absolute() / FILE_NAME)) if file.is_file()]


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), key)


def _unreadable_file() -> Path | None:
    for file in _files():
        try:
            tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return file
    return None


def _problem(error: ValidationError, overrides: dict[str, Any]) -> SettingsProblem:
    """Say which source of a setting is wrong, and how."""
    first = error.errors()[0]
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        known = ", ".join(to_camel(field) for field in Settings.model_fields)
        return SettingsProblem(f"{_origin(name, overrides)}: there is no such setting", f"The settings are: {known}.")
    cause = str(first.get("ctx", {}).get("error") or first["msg"].replace("Input should be", "it must be"))
    return SettingsProblem(f"{_origin(name, overrides)}: {cause}", "Correct it, or remove it to have the default.")


def _origin(name: str, overrides: dict[str, Any]) -> str:
    variable = (ENV_PREFIX + name).upper()
    if name in overrides:
        return f"setting {to_camel(name)}"
    if os.environ.get(variable):
        return f"environment variable {variable}"
    for file in _files():
        if any(_snake(key) == name for key in tomllib.loads(file.read_text(encoding="utf-8"))):
            return f"{file}: {to_camel(name)}"
    return f"setting {to_camel(name)}"
