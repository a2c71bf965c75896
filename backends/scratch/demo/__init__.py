"""Projects that show a sprite train itself."""
