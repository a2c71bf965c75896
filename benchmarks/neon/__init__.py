"""Instructions of matrix products on aarch64, counted in QEMU."""
