"""Loops: functions as kernels, for targets whose language has elements and no arrays."""

from __future__ import annotations

OPERATIONS = frozenset(
    {
        "Constant", "NumberOf", "Iota", "ArrayLiteral",
        "Reshape", "Permute", "Broadcast", "Slice", "Pad", "Concat", "Split", "Flip",
        "Window", "Fold", "Gather", "ScatterAdd", "TakeAlongAxis", "ScatterAddAlongAxis",
        "Sum", "Max", "ArgMax", "ArgMin", "CumSum", "ArgSort", "Contract", "Scan", "Cond",
    }
)  # fmt: skip
"""Operations that become loops, indices and numbers; every other one is a single operation on elements."""

TABLES = frozenset({"Stack", "Unstack"})
"""Operations of targets whose loops take rows from tables of arrays; others write stacks of layers out."""

ATTENTION = frozenset({"Attention", "ReverseAttention"})
"""Definitions that become steps of their own on machines that tile attention."""
