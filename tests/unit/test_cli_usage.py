# SPDX-License-Identifier: Apache-2.0
"""Wrong use of the command line: told as error and hint on standard error, with code 2, and nothing done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from client.cli import console
from client.cli.app import app, run
from client.cli.exits import Exit

ROOT = Path(__file__).parents[2]
SHOP = """\
apiVersion: perdure/v1
name: shop
workloads:
  web: {host: edge-1, image: "localhost:5000/web:1"}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A good manifest in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.yaml").write_text(SHOP)
    return "shop.yaml"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["bogus"], "no such command 'bogus'"),
        (["get", "bogus"], "no such command 'bogus'"),
        (["apply"], "missing option '-f' / '--file'"),
        (["apply", "-f"], "option '-f' requires an argument"),
        (["apply", "-f", "x", "--bogus"], "no such option: --bogus"),
        (["apply", "-f", "x", "--wait", "bogus"], "'bogus' is not one of 'first-attempt', 'running', 'none'"),
        (["apply", "-f", "x", "--timeout", "5x"], "'5x' is not a duration: write a number and a unit"),
        (["apply", "-f", "x", "--timeout", "-5s"], "is not a duration"),
        (
            ["apply", "-f", "x", "--expect-generation", "-1"],
            "'--expect-generation': it must be greater than or equal to 0",
        ),
        (["apply", "-f", "x", "--expect-generation", "two"], "'--expect-generation': it must be a valid integer"),
        (["get", "workloads", "-o", "xml"], "'xml' is not one of"),
        (["get", "workloads", "--state", "Bogus"], "'--state': 'Bogus' is no state; the states are Pending, Running"),
        (["describe"], "missing argument"),
        (["describe", "a", "b"], "'KIND': 'a' is neither workload nor host"),
        (["describe", "host", "a", "b"], "unexpected extra argument"),
        (["get", "hosts", "--state", "Bogus"], "'--state': 'Bogus' is no state of a host; those are Waiting, Ready"),
        (["resync"], "missing argument 'HOST'"),
        (["forget"], "missing argument 'HOST'"),
        (["describe", "a", "-o", "table"], "'table' is not one of"),
        (["wait", "a", "--for", "bogus"], "'bogus' is not one of"),
        (["delete"], "missing argument"),
        (["up", "--temporal-port", "70000"], "'--temporal-port': it must be less than or equal to 65535"),
        (["up", "--temporal-port", "x"], "'--temporal-port': it must be a valid integer"),
        (["up", "--host", "Bad_Host"], "setting host: 'Bad_Host' is not a host name"),
    ],
)
def test_wrong_use(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    first, *rest = err.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert rest[-1].startswith("hint: ")
    assert "Value error" not in err


@pytest.mark.parametrize("arguments", [["down"], ["get", "workloads"]])
def test_what_may_not_be_touched_is_no_fault_of_ours(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when the stack is that of another user."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/var/lib/perdure/run/host.pid")

    monkeypatch.setattr("perdure.runtime.settings.Settings.load", refuse)
    assert run(arguments) == Exit.REFUSED
    assert capsys.readouterr().err == (
        "error: /var/lib/perdure/run/host.pid: Permission denied\n"
        "hint: Act as its owner, or choose another PERDURE_HOME.\n"
    )


@pytest.mark.parametrize("arguments", [[], ["get"]])
def test_without_a_command_the_help_is_shown(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == Exit.USAGE
    assert "Commands:" in capsys.readouterr().err


def test_a_good_manifest_is_valid(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "-f", shop]) == Exit.DONE
    assert capsys.readouterr().out == "shop.yaml:1: manifest shop is valid, 1 workload\n"


def test_a_wrong_manifest_is_told_with_its_place(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(shop).write_text(SHOP.replace("image:", "imaeg:"))
    for command in ("validate", "apply"):
        assert run([command, "-f", shop]) == Exit.USAGE
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: shop.yaml:4:")
        assert "image" in err


def test_an_unreachable_server_is_code_5(
    shop: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And an invalid address is wrong use."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    for arguments in (["apply", "-f", shop], ["get", "workloads"], ["describe", "web"], ["delete", "web"]):
        assert run(arguments) == Exit.UNREACHABLE
        assert "error: Temporal cannot be reached at 127.0.0.1:1" in capsys.readouterr().err
    monkeypatch.setenv("TEMPORAL_ADDRESS", "not an address")
    assert run(["get", "workloads"]) == Exit.USAGE


def test_a_wrong_variable_is_code_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PERDURE_PULL_SLOTS", "many")
    assert run(["get", "workloads"]) == Exit.USAGE
    assert capsys.readouterr().err.startswith("error: environment variable PERDURE_PULL_SLOTS: ")


def test_what_needs_no_server_loads_no_sdk(shop: str) -> None:
    """Temporal's SDK takes longer to load than everything else together."""
    for arguments in (["--help"], ["version"], ["schema"], ["validate", "-f", str(Path(shop).absolute())]):
        code = (
            f"import sys; from client.cli.app import run; sys.exit(run({arguments!r}) or 'temporalio' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (arguments, done.stderr)


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """The reader has seen enough; the command ends with the code of what it did."""
    script = f"{sys.executable} -m client.cli.app schema; echo $? > {tmp_path}/code"
    subprocess.run(["sh", "-c", f"({script}) | true"], cwd=ROOT, check=True, stderr=subprocess.PIPE)
    assert (tmp_path / "code").read_text() == "0\n"


def test_every_command_has_a_help_that_begins_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    names = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    for name in [*names, "get"]:
        assert run([name, "--help"]) == Exit.DONE
        assert f"Usage: perdure {name}" in capsys.readouterr().out


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [("version", Exit.DONE), ("validate -f -", Exit.USAGE)])
def test_streams_that_are_closed_are_no_fault_of_ours(arguments: str, code: int, closed: str, tmp_path: Path) -> None:
    """A service manager, or a careless script, starts programs like that."""
    script = f"{sys.executable} -m client.cli.app {arguments} {closed}"
    done = subprocess.run(
        ["sh", "-c", script], cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", ["version", "--help", "schema"])
def test_output_that_finds_no_room_is_told(arguments: str) -> None:
    """With a code that says so: whoever reads the file later would miss the data."""
    script = f"{sys.executable} -m client.cli.app {arguments} >/dev/full"
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.REFUSED
    assert done.stderr.startswith("error: ")
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_others_wrote_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """An error of a registry, a name of a user: whatever way it took to us."""
    console.out("a\x1b[31mb\x9b2Jc\u202ed\te\nf\u2066g\x07")
    console.error("h\x1b]0;i\x07")
    out, err = capsys.readouterr()
    assert out == "a?[31mb?2Jc?d\te\nf?g?\n"
    assert err == "error: h?]0;i?\n"
