"""Families of ONNX's operators: each file registers functions on variables for operators, by version."""

from catgrad.discovery import import_modules

import_modules(__name__, __path__)
