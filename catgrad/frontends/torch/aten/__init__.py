"""Families of PyTorch's operations: each file registers functions on variables for overloads of ATen."""

from catgrad.discovery import import_modules

import_modules(__name__, __path__)
