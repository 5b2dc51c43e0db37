# SPDX-License-Identifier: Apache-2.0
"""Measurements beside peers, in the same run and in turns, so that a busy machine slows all of them alike.

*Running* is the container's first instruction: it appends a line to a file on a bind mount, and the file's time is the
stamp. So nobody polls a state, and the number of lines is the number of starts. The stamp is as fine as the kernel's clock
tick (4 ms), for everybody.

``contestant`` says what is asked of each; ``perdure``, ``plain``, ``dockerd`` and ``swarm`` are the four; ``stories`` has what is
measured, ``report`` how it is told.
"""
