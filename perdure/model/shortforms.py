# SPDX-License-Identifier: Apache-2.0
"""Readers of the short forms: ``"8080:80"``, ``"/srv/web:/data:ro"``, ``"db-password"``, ``1024``, and lists of arguments.

Each takes whatever stands where an object could stand, and returns that object's keys. They only split: whether a port is
a port is checked afterwards, by the same rules as for the long form.
"""

from __future__ import annotations

import json
import re
import shlex

from perdure.model.rules import refusal, shown

PORT_FORM = "[IP:]HOST:CONTAINER[/PROTOCOL]"
MOUNT_FORM = "SOURCE:TARGET[:OPTIONS], where SOURCE is a path of the host or the name of a volume"
DEVICE_FORM = "HOST-PATH[:CONTAINER-PATH][:rwm]"

_PORT = re.compile(
    r"(?:(?P<ip>\[[^\]]*\]|[^:\[\]]*):)?(?P<host>[^:\[\]]+):(?P<container>[^:/\[\]]+)(?:/(?P<protocol>.*))?"
)
_LARGEST_RANGE_SHOWN = 3


def read_port(written: object) -> dict[str, object]:
    """Read ``8080:80``, ``127.0.0.1:53:53/udp`` or ``[::1]:80:80``."""
    if not isinstance(written, str):
        port = written if isinstance(written, int) and not isinstance(written, bool) else 8080
        raise refusal("a port is a text or an object", f'write "{port}:{port}", in the form {PORT_FORM}')
    if found := re.fullmatch(r"([0-9]{1,5})(/[a-z]+)?", written):
        raise refusal(
            f"{shown(written)} does not say the port of the host", f'write "{found[1]}:{found[1]}{found[2] or ""}"'
        )
    if re.search(r"[0-9]-[0-9]", written.rpartition("]")[2]):
        raise refusal(
            f"{shown(written)} is a range of ports", f"write each port on a line of its own{_range_lines(written)}"
        )
    found = _PORT.fullmatch(written)
    if found is None or not found["host"].isdecimal() or not found["container"].isdecimal():
        raise refusal(
            f"{shown(written)} is not a port", f'write {PORT_FORM}, such as "8080:80" or "127.0.0.1:53:53/udp"'
        )
    read: dict[str, object] = {"host": _number(found["host"]), "container": _number(found["container"])}
    if found["protocol"] is not None:
        read["protocol"] = found["protocol"]
    if found["ip"] is not None:
        read["ip"] = found["ip"].strip("[]")
    return read


def _number(digits: str) -> int:
    return int(digits[:6])


def _range_lines(written: str) -> str:
    """The first lines of a range, written out."""
    found = re.fullmatch(r"(.*:)?([0-9]{1,5})-([0-9]{1,5}):([0-9]{1,5})(?:-[0-9]{1,5})?(/[a-z]+)?", written)
    if found is None:
        return ""
    first, last, inner = int(found[2]), int(found[3]), int(found[4])
    lines = [
        f'"{found[1] or ""}{first + step}:{inner + step}{found[5] or ""}"' for step in range(max(1, last - first + 1))
    ]
    shown_lines = ", ".join(lines[:_LARGEST_RANGE_SHOWN])
    return f": {shown_lines}{', ...' if len(lines) > _LARGEST_RANGE_SHOWN else ''}"


def read_mount(written: object) -> dict[str, object]:
    """Read ``/srv/web:/data:ro`` (a path of the host) or ``cache:/var/cache`` (a volume)."""
    if not isinstance(written, str):
        raise refusal("a mount is a text or an object", f"write {MOUNT_FORM}")
    parts = written.split(":")
    if len(parts) == 1:
        target = written if written.startswith("/") else "/data"
        raise refusal(
            f"{shown(written)} does not say what is mounted", f'write "cache:{target}" for a volume named cache'
        )
    source, target, *options = parts
    if len(options) > 1:
        raise refusal(f"{shown(written)} has too many colons", f"write {MOUNT_FORM}; options are joined by commas")
    if source.startswith((".", "~")):
        raise refusal(
            f"{shown(source)} is not an absolute path", "the host reads it, from no known directory: begin it with /"
        )
    read: dict[str, object] = {
        "type": "bind" if source.startswith("/") else "volume",
        "source": source,
        "target": target,
    }
    for option in options[0].split(",") if options else ():
        match option:
            case "ro":
                read["readOnly"] = True
            case "rw":
                read["readOnly"] = False
            case "z" | "Z" if read["type"] == "bind":
                read["relabel"] = "shared" if option == "z" else "private"
            case _:
                known = "ro, rw, z and Z" if read["type"] == "bind" else "ro and rw"
                raise refusal(f"{shown(option)} is not an option of a {read['type']} mount", f"known are {known}")
    return read


def read_secret(written: object) -> dict[str, object]:
    """Read the name of a Podman secret."""
    if not isinstance(written, str):
        raise refusal("a secret is a name or an object", 'write "db-password" or {name: db-password, target: /run/db}')
    return {"name": written}


def read_ulimit(written: object) -> dict[str, object]:
    """Read one number for both limits."""
    if not isinstance(written, int) or isinstance(written, bool):
        raise refusal("a limit is a number or an object", "write 1024 or {soft: 1024, hard: 4096}; -1 is without limit")
    return {"soft": written, "hard": written}


def check_device(written: str) -> str:
    """Check ``/dev/ttyUSB0``, ``/dev/ttyUSB0:/dev/modem`` or ``/dev/fuse:rw``."""
    if not re.fullmatch(r"/[^:\s\0]+(?::/[^:\s\0]+)?(?::(?!.*(.).*\1)[rwm]{1,3})?", written):
        raise refusal(f"{shown(written)} is not a device", f"write {DEVICE_FORM}, such as /dev/ttyUSB0")
    return written


def check_arguments(written: object) -> object:
    """Refuse a text where a list of arguments belongs: who would split it, and how, differs from engine to engine."""
    if isinstance(written, str):
        try:
            arguments = shlex.split(written)
        except ValueError:
            arguments = ["sh", "-c", written]
        listed = json.dumps(arguments, ensure_ascii=False)
        raise refusal(
            "a text is not a list of arguments", f"write {listed if arguments and len(listed) < 200 else '[...]'}"
        )
    return written


def check_command(written: object) -> object:
    """Refuse an empty command too: Podman takes it for none, and runs the image's own."""
    if isinstance(written, list) and not written:
        raise refusal("the list is empty, which Podman ignores", "leave it out to use the arguments of the image")
    return check_arguments(written)


def check_test(written: object) -> object:
    """Refuse a healthcheck that does not begin with how it is run."""
    how = 'write ["CMD", PROGRAM, ARGUMENT...] or ["CMD-SHELL", COMMAND] or ["NONE"]'
    if isinstance(written, str):
        raise refusal("a text is not a test", f'write ["CMD-SHELL", {json.dumps(written[:150], ensure_ascii=False)}]')
    if isinstance(written, (list, tuple)):
        match list(written):
            case ["CMD", _, *_] | ["CMD-SHELL", _] | ["NONE"]:
                return written
        raise refusal("the test does not say how it is run", how)
    return written
