"""`python -m harness`, the same as the command `harness`."""

import sys
from pathlib import Path

# `python -m` lets modules in the working folder replace installed ones, such as `autograd`.
if not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
    del sys.path[0]

from harness.cli import main

main()
