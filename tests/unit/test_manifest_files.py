# SPDX-License-Identifier: Apache-2.0
"""Reading manifests from files: every mistake with its place, and no input that does harm."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from client.manifests import ManifestError, load
from client.yaml_reader import DEEPEST_NESTING
from client.yaml_tree import LONGEST_FILE_BYTES

HEAD = "apiVersion: perdure/v1\nname: shop\nworkloads:\n"
WEB = "  web:\n    host: edge-1\n    image: localhost:5000/web:1.2\n"
GOOD = HEAD + WEB


def read(text: str | bytes) -> list[tuple[str, str]]:
    """The names of what a text holds, as host and workload."""
    raw = text.encode() if isinstance(text, str) else text
    loaded = load(["-"], stdin=io.BytesIO(raw))
    return [(target.host, target.name) for each in loaded for target in each.manifest.targets()]


def problems(text: str | bytes) -> list[str]:
    """What is wrong with a text: place, message and hint, without the name of the file."""
    with pytest.raises(ManifestError) as caught:
        read(text)
    return [f"{problem} | {problem.hint}".removeprefix("<stdin>:").lstrip() for problem in caught.value.problems]


def environment(line: str) -> str:
    """A manifest whose seventh line, from the seventh column, is this variable."""
    return f"{GOOD}    environment:\n      {line}\n"


# ---- what is read ----


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD)
    (loaded,) = load([str(file)])
    assert (loaded.manifest.name, loaded.source, loaded.line) == ("shop", str(file), 1)


def test_a_file_may_hold_several_documents_and_empty_ones() -> None:
    other = GOOD.replace("web:", "db:", 1)
    assert read(f"---\n{GOOD}---\n# nothing\n---\n{other}...\n") == [("edge-1", "web"), ("edge-1", "db")]


def test_json_is_yaml_too() -> None:
    entry = {"host": "edge-1", "image": "localhost/x", "environment": {"A": "Grüße 👋", "B": "tab\t/"}}
    written = {"apiVersion": "perdure/v1", "name": "shop", "workloads": {"web": entry}}
    for text in (json.dumps(written), json.dumps(written, indent="\t", ensure_ascii=False)):
        (loaded,) = load(["-"], stdin=io.BytesIO(text.encode()))
        assert loaded.manifest.workloads["web"].environment == entry["environment"]


def test_a_byte_order_mark_and_carriage_returns_do_no_harm() -> None:
    assert read(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()) == [("edge-1", "web")]


def test_a_directory_is_its_yaml_files_by_name(tmp_path: Path) -> None:
    for name, workload in (("b.yml", "two"), ("a.yaml", "one"), ("c.json", "three"), ("d.txt", "four")):
        (tmp_path / name).write_text(GOOD.replace("web:", f"{workload}:", 1))
    (tmp_path / "e.yaml").mkdir()
    loaded = load([str(tmp_path)])
    assert [Path(each.source).name for each in loaded] == ["a.yaml", "b.yml"]


def test_anchors_and_aliases_are_read() -> None:
    text = (
        f"{HEAD}  a: &a\n    host: edge-1\n    image: localhost/x\n    command: &c [x]\n    entrypoint: *c\n  b: *a\n"
    )
    assert read(text) == [("edge-1", "a"), ("edge-1", "b")]


# ---- sources that cannot be read ----


def test_a_file_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by a stand-in: the tests may run as root, who may read every file."""

    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ManifestError, match=r"shop.yaml: it cannot be read: Permission denied"):
        load([str(tmp_path / "shop.yaml")])


def test_files_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), ""])
    assert [str(problem).rpartition("/")[2] for problem in caught.value.problems] == [
        "a.yaml: it cannot be read: No such file or directory",
        "b.yaml: it cannot be read: No such file or directory",
        "'': a file without a name cannot be read",
    ]


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ManifestError, match="cannot be read"):
        load(["a\0b"])


def test_a_directory_without_manifests_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"holds no \*\.yaml or \*\.yml"):
        load([str(tmp_path)])


def test_a_source_named_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD)
    with pytest.raises(ManifestError, match="named twice"):
        load([str(file), str(file)])


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n---\n", "null\n", "\ufeff"], ids=ascii)
def test_an_empty_file_is_refused(text: str) -> None:
    assert problems(text) == ["there is no manifest in it | begin it with apiVersion: perdure/v1"]


def test_the_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD.replace("edge-1", "Edge"))
    with pytest.raises(ManifestError) as caught:
        load([str(tmp_path)])
    assert [problem.place for problem in caught.value.problems] == [
        f"{tmp_path}/a.yaml:5:11",
        f"{tmp_path}/b.yaml:5:11",
    ]


def test_a_workload_in_two_files_is_refused_with_both_places(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(GOOD)
    second.write_text("# another\n" + GOOD.replace("shop", "store").replace("host: edge-1", "hosts: [edge-2, edge-1]"))
    with pytest.raises(ManifestError) as caught:
        load([str(first), str(second)])
    assert str(caught.value) == f"{second}:5:3: workload edge-1/web stands here and at {first}:4:3"


# ---- U4: what YAML would change ----


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("COUNTRY: NO", "NO"),
        ("SWITCH: on", "on"),
        ("ANSWER: y", "y"),
        ("PORTS: 2122:22", "2122:22"),
        ("TIME: 12:30:45", "12:30:45"),
        ("PORT: 8080", "8080"),
        ("LEVEL: -1", "-1"),
        ('PIN: "0123"', "0123"),
        ("VER: '1.10'", "1.10"),
        ('EMPTY: ""', ""),
        ("VERSION: 1.2.3", "1.2.3"),
        ("HASH: 1_000x", "1_000x"),
        ("on: x", "x"),
        ("y: x", "x"),
        ('"": x', None),
    ],
    ids=ascii,
)
def test_a_text_arrives_as_it_was_written(line: str, value: str | None) -> None:
    if value is None:
        assert "is not a valid variable name" in problems(environment(line))[0]
        return
    (loaded,) = load(["-"], stdin=io.BytesIO(environment(line).encode()))
    assert list(loaded.manifest.workloads["web"].environment.values()) == [value]


@pytest.mark.parametrize(
    "written",
    [
        "0123",
        "1.10",
        "1e3",
        "0x1F",
        "0o17",
        "0b1",
        "true",
        "False",
        "+5",
        "-0",
        "1_000",
        ".5",
        "5.",
        ".inf",
        "-.INF",
        ".nan",
        "2024-01-31",
        "2024-01-31T12:00:00Z",
        "12345678901234567890",
    ],
)
def test_what_would_not_arrive_as_it_was_written_is_refused(written: str) -> None:
    (problem,) = problems(environment(f"KEY: {written}"))
    assert problem.startswith("8:12: workloads.web.environment.KEY: ")
    assert problem.endswith(f'| quote it: "{written}"')


@pytest.mark.parametrize("written", ["", "~", "null", "Null"])
def test_nothing_where_a_text_belongs_is_refused(written: str) -> None:
    (problem,) = problems(environment(f"KEY: {written}"))
    assert problem.endswith(
        'workloads.web.environment.KEY: there is no value | write "" for an empty text, or leave it out'
    )


@pytest.mark.parametrize("key", ["1", "0123", "true", "null", "1.5", "~"])
def test_a_key_that_is_not_a_text_is_refused(key: str) -> None:
    (problem,) = problems(environment(f"{key}: x"))
    assert problem.startswith(f"8:7: key {key} is ")
    assert problem.endswith(f'| write the key in quotes: "{key}"')


def test_restart_no_is_refused_with_the_word_for_it() -> None:
    assert problems(f"{GOOD}    restart: no\n") == [
        "7:14: workloads.web.restart: 'no' is not one of always, onFailure, never | did you mean never?"
    ]


def test_an_unquoted_port_mapping_is_not_a_number_of_base_sixty() -> None:
    (loaded,) = load(["-"], stdin=io.BytesIO(f"{GOOD}    ports: [2122:22]\n".encode()))
    (port,) = loaded.manifest.workloads["web"].ports
    assert (port.host, port.container) == (2122, 22)


@pytest.mark.parametrize("written", ["yes", "on", '"true"', "1", "True!"])
def test_only_true_and_false_are_truth_values(written: str) -> None:
    (problem,) = problems(f"{GOOD}    init: {written}\n")
    assert "not true or false" in problem


@pytest.mark.parametrize("written", ["010", "0x10", "1e1", '"10"', "1.0", "true"])
def test_a_number_is_written_plainly(written: str) -> None:
    (problem,) = problems(f"{GOOD}    resources: {{pids: {written}}}\n")
    assert problem.startswith("7:23: workloads.web.resources.pids: ")


# ---- U5: duplicates, bombs, size, depth ----


def test_a_key_that_stands_twice_is_refused_with_both_places() -> None:
    assert problems(f"{GOOD}    image: localhost/y\n") == [
        "7:5: key 'image' stands here and at 6:5 | leave one of the two out"
    ]


def test_a_workload_that_stands_twice_is_refused_with_both_places() -> None:
    assert "7:3: key 'web' stands here and at 4:3" in problems(GOOD + WEB)[0]


def bomb() -> bytes:
    rows = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 30)]
    return ("a0: &a0 [x, x]\n" + "\n".join(rows)).encode()


HARMFUL = {
    "alias bomb": (bomb(), "the aliases of this file stand for more than 10000 values"),
    "5 MB": (b"a: " + b"x" * 5_000_000, f"the file is longer than {LONGEST_FILE_BYTES} bytes"),
    "deep flow": (b"[" * 500_000, f"nested more than {DEEPEST_NESTING} levels deep"),
    "deep objects": (b"{a: " * 100_000, f"nested more than {DEEPEST_NESTING} levels deep"),
    "deep sequences": (b"- " * 500_000, f"nested more than {DEEPEST_NESTING} levels deep"),
    "deep indentation": (
        "".join(" " * depth + "a:\n" for depth in range(1000)).encode(),
        f"nested more than {DEEPEST_NESTING} levels deep",
    ),
    "self reference": (b"a: &a [*a]", "there is no anchor &a before this"),
    "binary": (bytes(range(128)) * 1000, "U+0000 cannot stand in YAML"),
}


def test_harmful_files_are_refused_within_a_second_and_50_mb(tmp_path: Path) -> None:
    """In a process of its own: each one's processor time, the least of three, and the peak of memory above a good file's."""
    (tmp_path / "good").write_text(GOOD)
    for name, (raw, _) in HARMFUL.items():
        (tmp_path / name).write_bytes(raw)
    script = """
        import resource, sys, time
        from client.manifests import ManifestError, load

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        load([sys.argv[1]])
        before = peak()
        for file in sys.argv[2:]:
            spent = []
            for _ in range(3):
                began = time.process_time()
                try:
                    load([file])
                except ManifestError as error:
                    told = str(error)
                spent.append(time.process_time() - began)
            print(min(spent), peak() - before, told, sep="|")
    """
    files = [str(tmp_path / name) for name in ("good", *HARMFUL)]
    command = [sys.executable, "-c", textwrap.dedent(script), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) == len(HARMFUL)
    for line, (_, says) in zip(lines, HARMFUL.values(), strict=True):
        seconds, memory, told = line.split("|", maxsplit=2)
        assert says in told
        assert float(seconds) < 1, told
        assert int(memory) < 50 * 2**20, told


def test_a_file_of_very_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.yaml_reader.MOST_NODES", 1000)
    assert "more than 1000 values" in problems("[" + "a, " * 1000 + "a]")[0]


def test_a_large_manifest_is_read() -> None:
    """Some hundred workloads are no bomb."""
    entry = "{host: edge-1, image: localhost/x, command: [a, b], ports: ['80:80']}"
    assert len(read(HEAD + "".join(f"  w{number}: {entry}\n" for number in range(300)))) == 300


# ---- U6: unknown keys ----


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("restartpolicy: always", "did you mean restart?"),
        ("restart_policy: always", "did you mean restart?"),
        ("pull_policy: always", "did you mean pullPolicy?"),
        ("imagePullPolicy: always", "did you mean pullPolicy?"),
        ("env: {}", "did you mean environment?"),
        ("enviroment: {}", "did you mean environment?"),
        ("volumes: []", "did you mean mounts?"),
        ("workingdir: /", "did you mean workingDir?"),
        ("giveUpAfter: 2h", "it belongs into retry: write retry: {giveUpAfter: ...}"),
        ("memory: 64Mi", "it belongs into resources: write resources: {memory: ...}"),
        ("revision: 3", "it belongs to the manifest: indent it less"),
        ("zzzz: 3", "known here are host, hosts, image, "),
    ],
)
def test_an_unknown_key_is_refused_and_the_right_one_suggested(line: str, hint: str) -> None:
    (problem,) = problems(f"{GOOD}    {line}\n")
    assert problem.startswith(f"7:5: workloads.web: unknown key '{line.partition(':')[0]}' | {hint}")


def test_unknown_keys_of_nested_objects_are_found() -> None:
    text = (
        f"{GOOD}    mounts:\n      - {{type: bind, source: /a, target: /b, readonly: true}}\n    stop: {{timout: 5s}}\n"
    )
    assert problems(text) == [
        "8:46: workloads.web.mounts[0]: unknown key 'readonly' | did you mean readOnly?",
        "9:12: workloads.web.stop: unknown key 'timout' | did you mean timeout?",
    ]


def test_a_key_of_a_workload_at_the_top_is_sent_further_in() -> None:
    assert problems(f"image: x\n{GOOD}") == [
        "1:1: unknown key 'image' | it belongs to a workload or to defaults: indent it more"
    ]


def test_a_dependency_that_is_not_there_is_told_at_its_place() -> None:
    assert problems(f"{GOOD}    dependsOn:\n      wob: running\n") == [
        "8:7: workloads.web.dependsOn.wob: there is no workload 'wob' in this manifest | did you mean web?"
    ]
    text = GOOD.replace("workloads:", "defaults: {dependsOn: {db: running}}\nworkloads:") + WEB.replace("web:", "api:")
    (problem,) = problems(text)
    assert problem.startswith("3:24: defaults.dependsOn.db: there is no workload 'db' in this manifest")
    assert problem.endswith("write HOST/NAME for a workload of another manifest")


def test_an_ankaios_manifest_is_told_so_at_its_version() -> None:
    text = "apiVersion: v1\nworkloads:\n  nginx:\n    runtime: podman\n    agent: agent_A\n"
    (problem,) = problems(text)
    assert problem.startswith(
        "1:13: apiVersion: apiVersion v1 is an Ankaios manifest: this version of Perdure reads only"
    )


# ---- places ----


def test_a_mistake_in_defaults_is_told_once_and_where_it_is() -> None:
    text = GOOD.replace("workloads:", "defaults:\n  retry: {maximumInterval: 400s}\n  bogus: 1\nworkloads:")
    text += "  db:\n    host: edge-2\n    image: localhost/db\n    retry: {initialInterval: 1s}\n"
    assert problems(text) == [
        "4:28: defaults.retry.maximumInterval: 6m40s is too long a wait | write at most 300s",
        "5:3: defaults: unknown key 'bogus' | known here are host, hosts, image, "
        + problems(text)[1].partition("image, ")[2],
    ]


def test_problems_come_in_the_order_of_the_lines() -> None:
    text = GOOD.replace("edge-1", "Edge") + "    restart: no\n    restart: never\n    bogus: 1\n"
    assert [int(problem.partition(":")[0]) for problem in problems(text)] == [5, 7, 8, 9]


def test_what_is_missing_is_told_at_the_object_that_lacks_it() -> None:
    assert problems(f"{HEAD}  web:\n    files: [{{path: /x}}]\n") == [
        "5:5: workloads.web: host is missing | write host: NAME or hosts: [NAME, ...] here or in defaults",
        "5:5: workloads.web: image is missing | write image: REGISTRY/REPOSITORY:TAG here or in defaults",
        "5:13: workloads.web.files[0]: content is missing | write content: ... here",
    ]
    assert problems("apiVersion: perdure/v1\n") == [
        "1:1: name is missing | write name: ... here",
        "1:1: workloads is missing | write workloads: ... here",
    ]


def test_a_part_of_a_short_form_is_told_at_the_text() -> None:
    (problem,) = problems(f"{GOOD}    ports:\n      - 80:99999\n")
    assert problem == "8:9: workloads.web.ports[0]: '80:99999' is out of range | write at most 65535"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "a:\n\tb: 1\n",
            "(while scanning for the next token) | indent by spaces, not by tabs",
        ),
        ("a: b: c\n", "1:5: mapping values are not allowed here | a text that holds ': ' needs quotes"),
        ("a: [1, 2\nb: 3\n", "look for a bracket that is not closed"),
        ('a: "b\n', "look for a quote that is not closed"),
        ("a: 1\n b: 2\n", "2:3: mapping values are not allowed here"),
        ("a: 1\n- b\n", "look at the indentation"),
        ("a: @b\n", "1:4: "),
        ("%YAML 1.1\n---\na: 1\n", "only YAML 1.2 is read"),
        ("%TAG ! tag:x,2000:\n---\na: !b 1\n", "is not allowed"),
        ("a: !!python/object/apply:os.system [x]\n", "1:4: tag !!python/object/apply:os.system is not allowed"),
        ("a: !!str 5\n", "1:4: tag !!str is not allowed | leave it out; quotes make a text"),
        ("<<: {a: 1}\n", "1:1: << is not part of YAML 1.2 | write what is common into defaults"),
        ("? [a]\n: b\n", "1:3: a list cannot be a key"),
        ("*x : 1\n", "there is no anchor &x before this"),
        ("just a text\n", "1:1: 'just a text' is not an object"),
        ("- a\n", "1:1: it is a list, not an object"),
        ("a: \x07\n", "1:4: character U+0007 cannot stand in YAML"),
        ("ä: ö\0\n", "1:5: character U+0000 cannot stand in YAML"),
    ],
    ids=ascii,
)
def test_what_is_not_yaml_is_refused_at_its_place(text: str, says: str) -> None:
    assert any(says in problem for problem in problems(text)), problems(text)


def test_bytes_that_are_not_utf8_are_refused_at_their_place() -> None:
    assert problems(b"a: \xc3\xbc\nb: \xfc\n") == ["2:4: byte 0xfc is not UTF-8 | save the file as UTF-8"]
    assert problems("a: 1".encode("utf-16")) == ["1:1: the file is not UTF-8 but UTF-16 | save it as UTF-8"]


def test_nothing_of_a_file_reaches_the_terminal_that_it_would_obey() -> None:
    r"""``\e[2J`` would clear the screen."""
    (problem,) = problems(HEAD + WEB.replace("web", '"\\e[2J\\nnot a place: "', 1))
    assert problem.isprintable()
    assert problem.startswith(r"4:3: workloads.\x1b[2J\nnot a place: : ")


def test_a_message_has_an_end() -> None:
    (problem,) = problems(HEAD + WEB.replace("web:", '"' + "x" * 100_000 + '":', 1))
    assert len(problem) < 1300


# ---- costs ----


def test_importing_the_reader_is_quick_and_loads_no_temporal() -> None:
    """``--help`` imports it: neither the model nor the YAML library nor Temporal may come with it."""
    script = "import sys; import client.manifests; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert {"temporalio", "pydantic", "ruamel.yaml", "typer"}.isdisjoint(done.stdout.split())


def test_reading_loads_no_temporal(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(GOOD)
    script = "import sys; from client.manifests import load; load([sys.argv[1]]); print(*sys.modules)"
    command = [sys.executable, "-c", script, str(tmp_path / "shop.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert {"temporalio", "typer", "podman"}.isdisjoint(done.stdout.split())
