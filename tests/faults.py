"""Faults planted in emitted CUDA, which tests must find."""

from __future__ import annotations

from dataclasses import replace

from catgrad.artifact import Artifact


def planted(artifact: Artifact, old: str, new: str, times: int | None = 1) -> Artifact:
    """Replace a text that the kernels and their runtime contain so many times, or at least once."""
    name = artifact.program.name
    files = {each: str(artifact.files[each]) for each in (f"{name}.cu", f"{name}_runtime.cuh")}
    found = sum(text.count(old) for text in files.values())
    assert found == times if times else found
    return replace(artifact, files=artifact.files | {each: files[each].replace(old, new) for each in files})
