# SPDX-License-Identifier: Apache-2.0
"""``python -m swtch`` is ``swtch``."""

import sys

from swtch.cli import main

if __name__ == "__main__":
    sys.exit(main())
