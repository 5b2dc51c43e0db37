# SPDX-License-Identifier: Apache-2.0
"""The story of ``make demo``: a registry goes down, comes back, a bad version is superseded, a container is killed.

Each step says what should come of it, looks, and says what came. The process exits 0 only if every step did what it said,
and leaves everything up, so that a user can look around.
"""

from __future__ import annotations

import subprocess
import sys

import httpx

from demo.image import push, web_server
from demo.narrator import Narrator, StepFailedError
from demo.registry import free_port
from demo.stage import HOST, Said, Stage
from perdure.model.faults import FaultKind
from perdure.model.states import State, Substate
from perdure.model.status import WorkloadStatus
from perdure.runtime.problems import Problem
from perdure.runtime.stack_record import StackRecord, read_record
from perdure.wire.names import workload_url

WORKLOAD = "web"
ACCEPTED_BUT_RETRYING = 7
"""The exit code of an apply whose first attempt failed, and which goes on trying."""

MANIFEST = """\
apiVersion: perdure/v1
name: demo
workloads:
  {name}:
    host: {host}
    image: {image}
    ports: ["127.0.0.1:{port}:8080"]
    stop: {{timeout: 2s}}
"""

NEXT = """\
Everything is still up. Look around:

  Web UI     {ui}
             this workload: {workload}
  status     .demo/perdure get workloads
             .demo/perdure describe {host}/{name}
  page       curl http://127.0.0.1:{port}/
  break it   .demo/podman kill {container}
             .demo/podman rm -f {container}
  change it  edit .demo/web.yaml, then: .demo/perdure apply -f .demo/web.yaml
  remove it  .demo/perdure delete {host}/{name}

make demo plays it again; make down stops and removes all of it."""


class Story:
    """One telling. Methods are the steps, in order."""

    def __init__(self, stage: Stage, narrator: Narrator) -> None:
        self.stage = stage
        self.narrator = narrator
        self.port = free_port()

    def play(self) -> None:
        """All steps."""
        self.stack_starts()
        self.registry_goes_down()
        self.apply_returns_after_the_first_attempt()
        self.status_tells_why()
        self.registry_comes_back()
        self.bad_version_leaves_the_old_one_running()
        self.good_version_supersedes_at_once()
        self.killed_container_comes_back()
        self.everything_can_be_looked_at()

    def stack_starts(self) -> None:
        """A registry with two images, a Podman, and Perdure."""
        tell = self.narrator
        tell.step("The stack starts")
        self.stage.set_up()
        for version in (1, 3):
            push(web_server(f"version {version}\n"), self.stage.registry.address, WORKLOAD, str(version))
        tell.tell(f"A registry at {self.stage.registry.address} holds web:1 and web:3, made of busybox on the spot.")
        ports = ["--temporal-port", "0", "--ui-port", "0"]
        up = tell.show(self.stage.run("up", "--detach", "--host", HOST, *ports))
        tell.check("exit code 0: the stack is up", f"exit code {up.code} after {up.seconds:.1f} s", holds=up.code == 0)

    def registry_goes_down(self) -> None:
        """As in real life, before anybody has pulled."""
        tell = self.narrator
        tell.step("The registry goes down")
        self.stage.registry.stop()
        answering = self.stage.registry.is_answering
        tell.check("the registry refuses connections", "it answers" if answering else "it refuses", holds=not answering)

    def apply_returns_after_the_first_attempt(self) -> None:
        """The user is told, and not kept waiting."""
        tell = self.narrator
        tell.step("Version 1 is applied while its registry is down")
        applied = tell.show(self._apply("1"))
        tell.check(
            f"apply returns after the first attempt, within 30 s, with code {ACCEPTED_BUT_RETRYING}: retrying",
            f"exit code {applied.code} after {applied.seconds:.1f} s",
            holds=applied.code == ACCEPTED_BUT_RETRYING and applied.seconds < 30,
        )

    def status_tells_why(self) -> None:
        """What, why, how often, and when it is tried next."""
        tell = self.narrator
        tell.step("Status tells what, why, and when it is tried next")
        tell.wait(
            "Pending(PullBackoff), RegistryUnreachable, an attempt, and a next try",
            self._status,
            until=lambda now: (
                (now.state, now.substate) == (State.PENDING, Substate.PULL_BACKOFF)
                and _fault(now) is FaultKind.REGISTRY_UNREACHABLE
                and now.attempt >= 1
                and now.next_attempt_at is not None  # None while a try is under way
            ),
            describe=lambda now: (
                f"{_state(now)}, {_fault(now)}, attempt {now.attempt}, next try at {now.next_attempt_at:%H:%M:%S} UTC"
                if now.next_attempt_at
                else f"{_state(now)}, {_fault(now)}, attempt {now.attempt} under way"
            ),
            within_seconds=20,
        )
        tell.show(self.stage.run("get", "workloads"))

    def registry_comes_back(self) -> None:
        """Nobody has to do anything."""
        tell = self.narrator
        tell.step("The registry comes back, and nobody lifts a finger")
        self.stage.registry.start()
        self._wait_until_running(generation=1, within_seconds=60)
        self._page("version 1")

    def bad_version_leaves_the_old_one_running(self) -> None:
        """A tag that does not exist must not take down what runs."""
        tell = self.narrator
        tell.step("Version 2 has a mistyped tag")
        applied = tell.show(self._apply("2-mistyped"))
        tell.check(
            f"exit code {ACCEPTED_BUT_RETRYING}: accepted, failed, retrying",
            f"exit code {applied.code} after {applied.seconds:.1f} s",
            holds=applied.code == ACCEPTED_BUT_RETRYING,
        )
        status = self._status()
        tell.check(
            "generation 2 in Pending(PullBackoff), ImageNotFound, while generation 1 is live",
            f"generation {status.generation} in {_state(status)}, {_fault(status)}, "
            f"while generation {status.live.generation if status.live else 'none'} is live",
            holds=(status.generation, status.state, status.substate) == (2, State.PENDING, Substate.PULL_BACKOFF)
            and _fault(status) is FaultKind.IMAGE_NOT_FOUND
            and status.live is not None
            and status.live.generation == 1,
        )
        self._page("version 1")

    def good_version_supersedes_at_once(self) -> None:
        """The stale attempt is in backoff, and is dropped."""
        tell = self.narrator
        tell.step("Version 3 is good, and supersedes version 2 at once")
        applied = tell.show(self._apply("3"))
        tell.check(
            "exit code 0 within 20 s, without waiting for version 2's next try",
            f"exit code {applied.code} after {applied.seconds:.1f} s",
            holds=applied.code == 0 and applied.seconds < 20,
        )
        self._wait_until_running(generation=3, within_seconds=10)
        self._page("version 3")
        containers = self.stage.run_podman("ps", "--all", "--format", "{{.Names}}").output.split()
        tell.check("exactly one container", f"{len(containers)}: {', '.join(containers)}", holds=len(containers) == 1)

    def killed_container_comes_back(self) -> None:
        """By its restart policy, `always`."""
        tell = self.narrator
        tell.step("The container is killed")
        before = self._status()
        killed = tell.show(self.stage.run_podman("kill", self._container(before)[:12]))
        tell.check("exit code 0: it is dead", f"exit code {killed.code}", holds=killed.code == 0)
        tell.wait(
            "Running again, one restart more",
            self._status,
            until=lambda now: now.state is State.RUNNING and now.restarts == before.restarts + 1,
            describe=lambda now: f"{_state(now)}, restarts {now.restarts}",
            within_seconds=30,
        )
        self._page("version 3")

    def everything_can_be_looked_at(self) -> None:
        """On the terminal, and in a browser."""
        tell = self.narrator
        tell.step("Everything can be looked at")
        tell.show(self.stage.run("describe", f"{HOST}/{WORKLOAD}"))
        ui = self._record().ui_url
        tell.wait(
            f"the Web UI answers at {ui}",
            lambda: _get(ui),
            until=lambda page: "<html" in page.lower(),
            describe=lambda page: "it does" if "<html" in page.lower() else page,
            within_seconds=15,
        )

    def last_words(self) -> str:
        """Where to look, and what to try."""
        record = self._record()
        return NEXT.format(
            ui=record.ui_url,
            workload=workload_url(record.ui_url, record.fleet, HOST, WORKLOAD),
            host=HOST,
            name=WORKLOAD,
            port=self.port,
            container=self._container(self._status())[:12],
        )

    def _apply(self, tag: str) -> Said:
        image = f"{self.stage.registry.address}/{WORKLOAD}:{tag}"
        self.stage.manifest.write_text(MANIFEST.format(name=WORKLOAD, host=HOST, image=image, port=self.port))
        self.narrator.tell(f"image: {image}")
        return self.stage.run("apply", "-f", self.stage.manifest.name)

    def _status(self) -> WorkloadStatus:
        status = self.stage.status()
        if status is None:
            raise StepFailedError("perdure get workloads shows no workload")
        return status

    def _container(self, status: WorkloadStatus) -> str:
        if status.live is None:
            raise StepFailedError(f"no container is live: {_state(status)}")
        return status.live.container_id

    def _wait_until_running(self, *, generation: int, within_seconds: float) -> None:
        self.narrator.wait(
            f"Running, generation {generation}",
            self._status,
            until=lambda now: now.state is State.RUNNING and now.live is not None and now.live.generation == generation,
            describe=lambda now: f"{_state(now)}, generation {now.live.generation if now.live else 'none'} live",
            within_seconds=within_seconds,
        )

    def _page(self, expected: str) -> None:
        self.narrator.wait(
            f"http://127.0.0.1:{self.port}/ says {expected!r}",
            lambda: _get(f"http://127.0.0.1:{self.port}/"),
            until=lambda page: page == expected,
            describe=repr,
            within_seconds=5,
        )

    def _record(self) -> StackRecord:
        record = read_record(self.stage.home)
        if record is None:
            raise StepFailedError("the stack is not up any more")
        return record


def _get(url: str) -> str:
    try:
        return httpx.get(url, timeout=2, trust_env=False, follow_redirects=True).text.strip()
    except httpx.HTTPError as error:
        return f"no answer ({type(error).__name__})"


def _state(status: WorkloadStatus) -> str:
    return f"{status.state}({status.substate})"


def _fault(status: WorkloadStatus) -> FaultKind | None:
    return status.last_error.kind if status.last_error else None


def main() -> int:
    """Clear what an earlier telling left, tell the story, and leave it up."""
    narrator = Narrator()
    if problems := Stage().tear_down():
        narrator.fail(
            f"an earlier demo cannot be removed: {'; '.join(problems)}", "see what still uses the folder .demo"
        )
    stage = Stage(registry_port=free_port())
    story = Story(stage, narrator)
    logs = (
        f"the logs are in {stage.home}, {stage.podman.home} and {stage.registry.folder}; `make down` removes everything"
    )
    try:
        story.play()
        narrator.end(story.last_words())
    except KeyboardInterrupt:
        narrator.fail("interrupted", "`make demo` begins anew; `make down` removes everything")
    except StepFailedError as error:
        narrator.fail(f"the story ends here: {error}", logs)
    except Problem as error:
        narrator.fail(str(error), error.hint)
    except (OSError, RuntimeError, httpx.HTTPError, subprocess.TimeoutExpired) as error:
        narrator.fail(f"a part of the demo does not work: {error}", logs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
