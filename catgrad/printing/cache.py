"""Cache of compiled templates: to parse them takes longer than to emit a small model."""

from __future__ import annotations

import hashlib
import marshal
import sys
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket

from catgrad.files import user_cache, write_atomically

TEMPLATES = "templates"
"""The folder in the cache."""

DIGEST_BYTES = 32
"""Bytes before the code in a file: SHA-256 of the code, of the template and of the versions that made it."""


class TemplateCache(jinja2.BytecodeCache):
    """Code of templates in a folder of the user's cache.

    A file that is damaged or outdated is made again; one that cannot be written is left out.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read the code of a template, if it is there and whole."""
        with suppress(OSError):
            content = _file(bucket).read_bytes()
            code = content[DIGEST_BYTES:]
            if content[:DIGEST_BYTES] == _digest(bucket, code):
                bucket.code = marshal.loads(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the code of a template, which other processes may do at the same time."""
        code, file = marshal.dumps(bucket.code), _file(bucket)
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(file, [_digest(bucket, code), code])


def _file(bucket: Bucket) -> Path:
    return user_cache() / TEMPLATES / bucket.key


def _digest(bucket: Bucket, code: bytes) -> bytes:
    made_by = f"{bucket.checksum} {jinja2.__version__} {sys.version}"
    return hashlib.sha256(made_by.encode() + code).digest()
