"""Which language a text is in: the `langdetect` package with a fixed seed, so that the same text is the same language.

`langdetect` samples n-grams at random; the reference implementation of IFEval leaves its seed open. Here every call has
a detector of its own with seed 0, and nothing of the package's own state is touched. Everything is offline.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

try:
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
    from langdetect.lang_detect_exception import LangDetectException
except ImportError:
    DetectorFactory = None

_LONGEST = 100_000
"""Characters that are looked at. The detector itself stops at 10,000 after it has taken out web and mail addresses."""


def is_installed() -> bool:
    """Is there a detector?"""
    return DetectorFactory is not None


def codes() -> tuple[str, ...]:
    """Languages that can be told apart: ISO 639-1 codes, Chinese as `zh-cn` and `zh-tw`."""
    return tuple(_factory().langlist)


def detect(text: str) -> str | None:
    """Code of the most probable language; `None` where the text has no letters that tell any."""
    detector = _factory().create()
    detector.append(text[:_LONGEST])
    try:
        found: str = detector.detect()
    except LangDetectException:
        return None
    return None if found == detector.UNKNOWN_LANG else found


@lru_cache(maxsize=1)
def _factory() -> DetectorFactory:
    """The profiles of all languages, read once (about 0.3 s) and in one order, so that no file system shows."""
    files = sorted(path for path in Path(PROFILES_DIRECTORY).iterdir() if path.is_file())
    factory = DetectorFactory()
    factory.load_json_profile([path.read_text(encoding="utf-8") for path in files])
    factory.seed = 0
    return factory
