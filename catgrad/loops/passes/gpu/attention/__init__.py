"""FlashAttention on GPUs: by threads, and on tensor cores."""
