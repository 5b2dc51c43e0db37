# SPDX-License-Identifier: Apache-2.0
"""What is measured, one module for each story. A story takes the scene, leaves nothing of its own there, and returns figures."""
