"""Tests in a browser: projects in Scratch's editor, playgrounds, and modules with WebGPU."""
