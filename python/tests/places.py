"""Where the tests find things."""

from __future__ import annotations

import os
from pathlib import Path

#: The root of the repository.
ROOT = Path(__file__).parents[2]
FASHION = ROOT / "data" / "fashion"

#: Programs that `make python` and `make test-peers` have built.
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
