"""A trainer for Fisher's irises on a microcontroller: no files, no heap, no operating system."""
