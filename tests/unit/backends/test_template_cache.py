"""Compiled templates are read from the cache; what is damaged, outdated or not theirs is made again."""

from __future__ import annotations

import jinja2
import pytest

from catgrad.printing.cache import DIGEST_BYTES, TemplateCache


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path))
    return tmp_path / "templates"


def rendered(text="{{ x }} and {{ x }}"):
    """Render a template by an environment that has not seen it."""
    loader = jinja2.DictLoader({"twice.j2": text})
    return (
        jinja2.Environment(bytecode_cache=TemplateCache(), loader=loader).get_template("twice.j2").render(x=1)
    )


def is_cached(monkeypatch):
    """Render the template again, where nothing can be parsed."""
    with monkeypatch.context() as patch:
        patch.setattr(jinja2.Environment, "_parse", None)
        return rendered() == "1 and 1"


def test_a_template_is_parsed_once(folder, monkeypatch):
    assert rendered() == "1 and 1"
    assert len([*folder.iterdir()]) == 1
    assert is_cached(monkeypatch)


def test_a_template_that_changes_is_parsed_again(folder):
    rendered()
    assert rendered("{{ x + 1 }}") == "2"
    assert len([*folder.iterdir()]) == 1


@pytest.mark.parametrize("place", [0, DIGEST_BYTES, -1])
def test_a_damaged_file_is_made_again(folder, monkeypatch, place):
    rendered()
    [file] = folder.iterdir()
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[place] ^= 1
    for content in (bytes(damaged), whole[:place], b""):
        file.write_bytes(content)
        assert rendered() == "1 and 1"
        assert is_cached(monkeypatch)


def test_code_of_another_version_is_not_read(folder, monkeypatch):
    rendered()
    [file] = folder.iterdir()
    monkeypatch.setattr(jinja2, "__version__", "0")
    before = file.read_bytes()
    assert rendered() == "1 and 1"
    assert file.read_bytes()[:DIGEST_BYTES] != before[:DIGEST_BYTES]


def test_a_cache_that_cannot_be_written_is_none(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CATGRAD_CACHE", str(tmp_path / "file"))
    assert rendered() == rendered() == "1 and 1"
