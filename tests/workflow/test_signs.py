# SPDX-License-Identifier: Apache-2.0
"""The sign on a workload's first page in the Web UI: a timer that only its summary is for."""

from __future__ import annotations

from temporalio.api.enums.v1 import EventType

from perdure.model.faults import FaultClass, FaultKind, Phase
from perdure.wire import names
from perdure.wire.converter import data_converter
from tests.fakes.engine import FakeEngine, fault
from tests.support.waiting import eventually_async
from tests.workflow.fleet import Fleet, spec


async def standing(fleet: Fleet, name: str = "web") -> list[str]:
    """The summaries of the timers that run now."""
    timers: dict[int, str] = {}
    async for event in fleet.handle(name).fetch_history_events():
        match event.event_type:
            case EventType.EVENT_TYPE_TIMER_STARTED:
                summary = await data_converter().decode([event.user_metadata.summary], [str])
                timers[event.event_id] = summary[0]
            case EventType.EVENT_TYPE_TIMER_CANCELED:
                del timers[event.timer_canceled_event_attributes.started_event_id]
            case EventType.EVENT_TYPE_TIMER_FIRED:
                del timers[event.timer_fired_event_attributes.started_event_id]
    return list(timers.values())


async def signs_read(fleet: Fleet, *wanted: str) -> None:
    """Wait until exactly these signs stand; the server shows what a workflow tells a moment later."""

    async def look() -> bool:
        found = await standing(fleet)
        assert found == list(wanted), found
        return True

    await eventually_async(look, within=15, what=f"the signs read {wanted}")


async def test_a_healthy_workload_costs_no_timer(real_fleet: Fleet) -> None:
    await real_fleet.apply("web", spec())
    await signs_read(real_fleet)


async def test_a_parked_workload_shows_why_until_it_is_cured(real_fleet: Fleet, engine: FakeEngine) -> None:
    """Then nothing of the sign is left, nor when it is removed."""
    engine.images.add("reg/app:1")
    engine.start_faults["reg/app:1"] = fault(
        FaultKind.INVALID_OPTION, "no", phase=Phase.START, fault_class=FaultClass.PERMANENT
    )
    await real_fleet.apply("web", spec())
    rejected = "Rejected, InvalidOption: do this; then apply a newer manifest, or perdure retry edge-1/web"
    await signs_read(real_fleet, rejected)
    await real_fleet.signal("web", names.PAUSE)
    await signs_read(real_fleet, "Paused: perdure resume edge-1/web takes it up again")
    await real_fleet.signal("web", names.RESUME)
    await signs_read(real_fleet, rejected)
    await real_fleet.apply("web", spec("reg/app:2"))
    await signs_read(real_fleet)


async def test_a_failing_workload_shows_the_kind_of_its_error(real_fleet: Fleet, engine: FakeEngine) -> None:
    """A try that fails in the same way puts up no new sign."""
    engine.pull_faults[""] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    await real_fleet.apply("web", spec())
    shown = "PullBackoff, RegistryUnreachable: do this; perdure retry edge-1/web saves the wait"
    await signs_read(real_fleet, shown)
    await real_fleet.that(lambda: len(engine.pulls) > 2, "it is tried again")
    await signs_read(real_fleet, shown)


async def test_a_wait_for_a_restart_shows_why(real_fleet: Fleet) -> None:
    """By the timer that it needs anyway."""
    await real_fleet.apply("web", spec(restart_backoff={"initial": "200s", "maximum": "300s"}))
    await real_fleet.container_ended("web", 137)
    await real_fleet.until("web", "Pending/RestartBackoff")
    await signs_read(real_fleet, "RestartBackoff: the container ended with code 137")


async def test_an_image_with_a_very_long_name_is_no_harm(real_fleet: Fleet) -> None:
    """A summary of more than 400 bytes is refused with the activity that it is of, for ever."""
    name = "/".join(["registry.example", *["a" * 60] * 9]) + ":1"
    await real_fleet.apply("web", spec(name))
    await real_fleet.until("web", "Running/Ok")


async def test_a_signal_to_try_again_needs_no_input(real_fleet: Fleet, engine: FakeEngine) -> None:
    """Such as people send from the Web UI."""
    engine.pull_faults[""] = fault(FaultKind.REGISTRY_UNREACHABLE, "connection refused")
    await real_fleet.apply("web", spec(retry={"initial_interval": "200s"}))
    engine.pull_faults.clear()
    await real_fleet.signal("web", names.RETRY_NOW)
    await real_fleet.until("web", "Running/Ok")
