"""A trainer for Fisher's irises that fits a microcontroller: no file, no heap, no operating system."""
