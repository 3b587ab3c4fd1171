"""What holds for all tests: no promise is about time, so hypothesis sets no deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
