"""Known gaps: functions and exact numbers that other targets have and a sprite lacks, and the reasons."""

from __future__ import annotations

KNOWN_GAPS = {
    "nan": "what is no number is 0 to the next block of Scratch",
    "64 bits": "Scratch's numbers are float64, in which an integer has at most 53 bits",
    "16 bits": "Scratch rounds nothing to 16 bits, or to 32",
    "powers": "Scratch has no powers: blocks compute e^(y ln x), off by some units in the last place",
    "sines": "Scratch rounds sines and cosines to 10 decimals",
    "symbolic sizes": "the sizes of a sprite are numbers when it is emitted",
    "learner": "a learner in Scratch steps and predicts by batches of one size: no loss, grads or update",
}
"""Reasons by a word for each gap; tests that need the missing feature name it."""
