"""Libraries of microkernels for aarch64, of which nothing is part of this project."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from catgrad.errors import ToolError


@dataclass(frozen=True)
class Library:
    """A library of microkernels: a commit, the source around it, its own sources, and folders of headers."""

    name: str
    url: str
    commit: str
    source: str
    files: tuple[str, ...]
    headers: tuple[str, ...]

    def require(self, folder: Path) -> Path:
        """Return the folder of the library. Raises: ToolError unless it has this commit."""
        done = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True)
        if done.stdout.strip() != self.commit:
            raise ToolError(
                f"{folder} must be {self.name} at commit {self.commit[:7]}",
                f"it is at {done.stdout.strip()[:7] or 'none'}",
                f"git clone {self.url}, and git checkout {self.commit}",
            )
        return folder


KLEIDIAI = Library(
    "KleidiAI", "https://github.com/ARM-software/kleidiai", "495f6524d9811918dd08d6e0946bc51bf5cd5e0f",
    "kleidiai.c",
    (
        *(f"kai/ukernels/matmul/matmul_clamp_f32_f32_f32p/kai_matmul_clamp_f32_f32_f32p16x1b_6x16_neon_mla{end}"
          for end in (".c", "_asm.S")),
        *(f"kai/ukernels/matmul/matmul_clamp_f32_qai8dxp_qsi8cxp/kai_matmul_clamp_f32_qai8dxp{each}"
          for each in ("1x4_qsi8cxp4x4_1x4_neon_dotprod.c", "1x4_qsi8cxp4x4_1x4_neon_dotprod_asm.S",
                       "4x4_qsi8cxp4x4_16x4_neon_dotprod.c")),
        *(f"kai/ukernels/matmul/pack/kai_rhs_pack_{each}"
          for each in ("kxn_x32p16x1b_x32_x32_neon.c", "kxn_x32p16x1b_x32_x32_neon_asm.S",
                       "nxk_x32p16x1bx32_x32_x32_neon.c", "nxk_x32p16x1bx32_x32_x32_neon_asm.S",
                       "kxn_qsi8cxp_qsi8cx_neon.c", "nxk_qsi8cxp_qsi8cx_neon.c")),
        "kai/ukernels/matmul/pack/kai_lhs_quant_pack_qai8dxp_f32.c",
    ),
    (".", "kai/ukernels/matmul"),
)  # fmt: skip
XNNPACK = Library(
    "XNNPACK",
    "https://github.com/google/XNNPACK",
    "75db3c093b6d74fe90b8df82670cd8a01102ba38",
    "xnnpack.c",
    (
        "src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-4x16-minmax-neon-mlal-lane.c",
        "src/f32-igemm/gen/f32-igemm-6x8-minmax-aarch64-neonfma-lane-ld128.c",
    ),
    (".", "include"),
)
