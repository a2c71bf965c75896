"""Emitted WebAssembly in a page that Vite bundles, which finds the library and its workers."""

from __future__ import annotations

import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from catgrad.backends.wasm.build import library

from tests.conformance.test_wasm_threads import BATCH, wide
from tests.targets import cannot, emit

from .editor import ask, missing
from .test_wasm import STEPS, data

VITE = Path(__file__).parents[1] / "vite"
NOT_INSTALLED = None if (VITE / "node_modules").is_dir() else "Vite is not installed; `make browser` does it"
MISSING = missing() or cannot("wasm") or NOT_INSTALLED
pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(MISSING), reason=f"a bundle: {MISSING}")]

PAGE = """<!doctype html><link rel="icon" href="data:"><script type="module" src="./main.mjs"></script>"""
MAIN = f"""import {{ createModel }} from "./wide.mjs";
window.train = async (options, features) => {{
    const x = Float32Array.from(features), model = await createModel(options), losses = [];
    for (let i = 0; i < {STEPS}; i++) losses.push(model.step({BATCH}, x, x));
    model.terminate?.();
    return losses;
}};
"""
TRAIN = """(async () => {
    while (!window.train) await new Promise(requestAnimationFrame);
    return window.train(%s, %s);
})()"""
CONFIG = 'export default { worker: { format: "es" }, build: { target: "es2022" } };\n'


def bundled(artifact, folder):
    """Return the files that Vite makes of a page with a module."""
    artifact.write(folder)
    shutil.copy(library(artifact), folder / "wide.wasm")
    for name, text in {"index.html": PAGE, "main.mjs": MAIN, "vite.config.mjs": CONFIG}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "node_modules").symlink_to(VITE / "node_modules")
    command = ["node", "node_modules/vite/bin/vite.js", "build", "--logLevel", "error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    made = folder / "dist"
    return {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()}


def trained(files, options):
    """Train in a page of these files; returns the losses."""
    script = TRAIN % (options, data()[0].ravel().tolist())
    binary = {name: b64encode(content).decode() for name, content in files.items()}
    answer = ask("module.cjs", 120, files={}, binary=binary, script=script, isolated=True)
    assert answer["errors"] == []
    return answer["result"]


@pytest.mark.parametrize(("openmp", "options"), [(False, "{}"), (True, "{ threads: 2 }")])
def test_a_bundle_trains_as_the_module_does(tmp_path, openmp, options):
    files = bundled(emit(wide(), "wasm", openmp=openmp), tmp_path)
    assert any(name.endswith(".wasm") for name in files)
    learner = emit(wide(), "wasm").load()().learner()
    assert trained(files, options) == [float(learner.step(*data())) for _ in range(STEPS)]


def test_a_library_that_is_not_served_is_named(tmp_path):
    files = bundled(emit(wide(), "wasm"), tmp_path)
    kept = {name: content for name, content in files.items() if not name.endswith(".wasm")}
    with pytest.raises(RuntimeError, match=r"wide.*\.wasm must be served, but the answer is 404"):
        trained(kept, "{}")
