"""Where generators write: tests/fixtures, or the folder that SSMPROBE_FIXTURES names."""

import os
from pathlib import Path

FIXTURES = Path(os.environ.get("SSMPROBE_FIXTURES") or Path(__file__).resolve().parent.parent / "fixtures")
