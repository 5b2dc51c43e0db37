# SPDX-License-Identifier: Apache-2.0
"""Properties are searched without a stopwatch: how long one example takes says more about the machine than about the code."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("perdure", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("perdure")
