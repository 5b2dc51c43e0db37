# SPDX-License-Identifier: Apache-2.0
"""What must hold of the whole repository: layers, headers, sizes, the wheel, the documents."""
