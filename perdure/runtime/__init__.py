# SPDX-License-Identifier: Apache-2.0
"""The plumbing of a process: settings, connections, logs, and the embedded stack of one machine."""
