# SPDX-License-Identifier: Apache-2.0
"""The reference page of the manifest, written from its JSON Schema: each key with its forms, its default and what it means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from perdure.model.manifest import json_schema

_TITLES = {
    "WorkloadEntry": "A workload",
    "PortEntry": "A port",
    "BindEntry": "A bind mount",
    "VolumeEntry": "A volume",
    "TmpfsEntry": "A tmpfs",
    "FileEntry": "A file",
    "SecretEntry": "A secret",
    "UlimitEntry": "A ulimit",
    "ResourcesEntry": "Resources",
    "HealthcheckEntry": "A healthcheck",
    "StopEntry": "Stop",
    "RestartBackoffEntry": "Restart backoff",
    "RetryEntry": "Retry",
}

_BEGIN = """# Manifest

What a manifest of `apiVersion: perdure/v1` may say. This page is written from the model by `make docs`.

For completion and checks while you type, save the schema by `perdure schema > perdure-v1.schema.json` and begin a manifest with

```yaml
# yaml-language-server: $schema=perdure-v1.schema.json
```

Examples: the [smallest one](../../examples/hello.yaml), a [shop](../../examples/shop.yaml),
[what starts before what](../../examples/dependencies.yaml), and [every key](../../examples/every-key.yaml).

## How it is read

- A file is YAML 1.2 (JSON is YAML too), in UTF-8. It may hold several manifests, parted by `---`.
- `NO`, `on`, `y` and `2122:22` are texts. Where a text is expected, an unquoted `0123`, `1.10`, `1e3`, `0x1F`, `true`, `null`
  or `2024-01-01` is refused, since it would not arrive as it was written: put it in quotes. A plain whole number such as
  `8080` arrives as it was written, and is taken.
- Unknown keys, keys that stand twice, tags (`!!int`) and merge keys (`<<`) are refused. Anchors and aliases are read.
- Every mistake is told with its file, line and column, all of them at once, and nothing of any file is applied then.
- What is in a manifest stands in histories. Secrets stay out of it: see [a secret](#a-secret).

## Defaults

`defaults` takes every key of a workload, and is merged into each workload before anything is checked. The workload's own keys
win: objects are merged key by key, lists and texts are replaced as a whole, and its own `host` or `hosts` replaces both. Where
`null` is allowed, it takes back what `defaults` says.

## What a change does

A change of `tags`, `retry`, `restart`, `restartBackoff`, `onUnhealthy`, `dependsOn` or `pullPolicy` takes effect without
touching the container. A change of anything else makes a new generation, whose container replaces the old one once its image
is there. Writing out a default changes nothing.

"""

_FORMS = """## Forms of values

| form | how it is written |
| --- | --- |
| duration | a number and a unit: `500ms`, `30s`, `5m`, `2h`, `1d`, or several: `1h30m`. At most `3650d` |
| size | a number of bytes, or with a unit: `64Mi`, `1Gi` are powers of 1024, `128M`, `1G` are powers of 1000 |
| permission bits | three or four octal digits in quotes: `"0644"` |
| text | any text without NUL; whole numbers need no quotes |
| name | 1 to 63 lower-case letters a-z, digits and hyphens, with a letter or digit first and last |
| image | `REGISTRY/REPOSITORY[:TAG][@DIGEST]`, always with the registry: `docker.io/library/nginx:1.27` |
| path | an absolute path without `..` |
| signal | a name or number: `SIGTERM`, `TERM`, `15` |

## Limits

| what | at most |
| --- | --- |
| a file | 1 MiB, 50,000 values, 32 levels deep |
| the `files` of a workload | 256 KiB together |
| a workload, as JSON | 512 KiB |
| the dependencies of a workload | 100 |
| all aliases of a file | 10,000 values |
| workloads times hosts of a manifest | 10,000 |
| the wait between two tries or two restarts | 300 s |
"""


def as_markdown() -> str:
    """The page ``docs/reference/manifest.md``."""
    schema = _schema()
    lines = ["## The document", "", *_table(schema), ""]
    for name, title in _TITLES.items():
        entry = schema["$defs"][name]
        lines += [f"## {title}", "", _sentence(entry["description"]), *_short_form(name), "", *_table(entry), ""]
    return _BEGIN + "\n".join(lines) + "\n" + _FORMS


@cache
def _schema() -> dict[str, Any]:
    return json_schema()


def _table(entry: dict[str, Any]) -> Iterator[str]:
    yield "| key | form | default | what it is |"
    yield "| --- | --- | --- | --- |"
    required = entry.get("required", ())
    for key, value in entry["properties"].items():
        default = "**needed**" if key in required else _default(value)
        yield f"| `{key}` | {_form(value)} | {default} | {_sentence(_description(value))} |"


def _default(value: dict[str, Any]) -> str:
    default = value.get("default")
    return "" if default in (None, "") else f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _description(value: dict[str, Any]) -> str:
    """What a key is; one that says nothing itself is what it refers to."""
    return str(value.get("description") or _schema()["$defs"][_target(value)]["description"])


def _sentence(text: str) -> str:
    """A docstring as a cell of a table."""
    return re.sub(r"\s+", " ", text.replace("``", "`")).replace("|", "\\|")


def _short_form(name: str) -> list[str]:
    """What may stand instead of the object, where anything may."""
    for value in _schema()["$defs"]["WorkloadEntry"]["properties"].values():
        for item in (value.get("items", {}), *value.get("patternProperties", {}).values()):
            short, *long_forms = item.get("anyOf", [{}])
            if _is_short(short) and name in json.dumps(long_forms) and name != "TmpfsEntry":
                examples = ", ".join(f"`{example}`" for example in short["examples"])
                return ["", f"{short['description']}. Examples: {examples}."]
    return []


def _is_short(form: dict[str, Any]) -> bool:
    return "Short form" in form.get("description", "")


def _form(value: dict[str, Any]) -> str:
    """How a value is written, in a few words, with a link where it is an object."""
    match value:
        case {"enum": choices}:
            return ", ".join(f"`{choice}`" for choice in choices if choice)
        case {"const": constant}:
            return f"`{constant}`"
        case {"$ref": _}:
            title = _TITLES.get(_target(value))
            if title is None:
                return _form(_schema()["$defs"][_target(value)])
            return f"[{title.removeprefix('A ').lower()}](#{title.lower().replace(' ', '-')})"
        case {"anyOf": forms} | {"oneOf": forms}:
            return _alternatives(forms)
        case {"patternProperties": patterns}:
            return f"object of {_form(next(iter(patterns.values())))}"
        case {"items": item}:
            return f"list of {_form(item)}"
    return _scalar(value)


def _alternatives(forms: list[dict[str, Any]]) -> str:
    if [form.get("type") for form in forms] == ["string", "integer"]:
        return "text"
    described = dict.fromkeys(_form(form) for form in forms if not _is_short(form))
    last = described.pop("`null`", "") is None
    return " or ".join(described) + (", or `null`" if last else "")


def _scalar(value: dict[str, Any]) -> str:
    examples = [str(example) for example in value.get("examples", ())]
    for example, form in (("500ms", "duration"), ("64Mi", "size"), ("0644", "permission bits")):
        if example in examples:
            return form
    if value.get("pattern") == "^/":
        return "path"
    match value["type"]:
        case "null":
            return "`null`"
        case "boolean":
            return "`true` or `false`"
        case "integer" | "number" as kind:
            least, most = value.get("minimum"), value.get("maximum")
            ends = f" {least} to {most}" if least is not None and most is not None and most < 2**53 else ""
            return ("whole number" if kind == "integer" else "number") + ends
    return f"text, such as `{examples[0]}`" if examples else "text"


def _target(value: dict[str, Any]) -> str:
    """The name of what a reference leads to."""
    return str(value["$ref"]).rpartition("/")[2]
