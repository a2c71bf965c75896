"""The installed ggml is found where packages and distributions put it."""

from __future__ import annotations

import pytest
from catgrad.backends.ggml import tools

VERSION = 'set(PACKAGE_VERSION "0.9.11")\n\nif("0.9.11" MATCHES "^([0-9]+)")\n'


@pytest.mark.parametrize("libraries", ["lib", "lib/x86_64-linux-gnu", "lib64"])
def test_configurations_are_found(tmp_path, monkeypatch, libraries):
    folder = tmp_path / libraries / "cmake/ggml"
    folder.mkdir(parents=True)
    (folder / "ggml-config.cmake").touch()
    monkeypatch.setenv(tools.GGML.variable, str(tmp_path))
    assert tools.GGML.prefix() == tmp_path
    assert (tools.GGML.is_installed(), tools.GGML.version()) == (True, "")
    (folder / "ggml-version.cmake").write_text(VERSION)
    assert tools.GGML.version() == "0.9.11"


def test_a_wrong_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(tools.GGML.variable, str(tmp_path))
    assert not tools.GGML.is_installed()
    assert tools.GGML.version() == ""
    assert tools.GGML.missing().startswith(
        f"there is no library ggml: $CATGRAD_GGML is {str(tmp_path)!r}, without "
    )
