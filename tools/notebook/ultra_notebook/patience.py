"""How long to wait for programs on a busy machine."""

import os


def patient(seconds: float) -> float:
    """The seconds to wait for what takes no longer than `seconds` on an idle machine.

    Tests are given their patience by cmake/UltraTestLimits.cmake; a learner's notebook has none.
    """
    return seconds * float(os.environ.get("ULTRA_TEST_PATIENCE", "1"))
