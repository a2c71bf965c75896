"""Matrix products on GPUs: tiles in shared memory, rings that feed them, tensor cores, libraries."""
