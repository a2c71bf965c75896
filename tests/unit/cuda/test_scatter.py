"""Machine code of scattered sums, by nvcc."""

from __future__ import annotations

import re

from catgrad import Dtype, Functions, NdArrayType, build, emit, ops

from .nvcc import NEEDS_NVCC, NEEDS_NVDISASM, compiled, kernels, require_clean


@NEEDS_NVCC
@NEEDS_NVDISASM
def test_rows_of_selected_tokens_are_added_by_16_bytes(tmp_path):
    """An index whose last terms were added in 32 bits hid from nvcc that elements lie side by side."""
    tokens = (8, 1024)
    types = [NdArrayType((*tokens, 768)), NdArrayType(tokens, Dtype.int64)]
    term = build(lambda x, i: ops.scatter_add(x, i, 50_257), types)
    emit(Functions({"words": term}, "words"), "cuda").write(tmp_path)
    require_clean(compiled("words.cu", tmp_path, "-arch=sm_90"), 2)
    [text] = [text for text in kernels(tmp_path / "words.cubin").values() if "VOTE" in text]
    loads = re.findall(r"\b(?:LDG|STG)\.E[.\w]*", text)
    assert {"LDG.E.128", "STG.E.128"} <= {*loads}
    assert "STG.E" not in loads and text.count("BAR.SYNC") == 2
