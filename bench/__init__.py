# SPDX-License-Identifier: Apache-2.0
"""Measurements beside plain Podman, in the same run and in turns, so that a busy machine slows both alike.

*Running* is the container's first instruction: it appends a line to a file on a bind mount, and the file's time is the
stamp. So nobody polls a state, and the number of lines is the number of starts. The stamp is as fine as the kernel's clock
tick (4 ms), for both sides.
"""
