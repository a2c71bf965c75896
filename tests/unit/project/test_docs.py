"""The documentation is true: code runs, excerpts are emitted, links have targets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from catgrad.examples.char_gpt import task as gpt

import catgrad
from catgrad import Functions, NdArrayType, build, layers, ops
from catgrad import emit as default_emit
from catgrad.frontends.torch.registry import TRANSLATIONS
from catgrad.targets import backends, get_backend
from catgrad.testing import operation_cases
from examples.iris import linear
from tests.conformance.torch_backend import register
from tests.targets import emit
from tests.unit.command import run
from tools import check_links

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def excerpts(block: str) -> list[str]:
    """Split a block at lines of three dots into excerpts of emitted source."""
    return re.split(r"^ *\.\.\.\n", block, flags=re.MULTILINE)


def test_the_readme_runs():
    step, *code = python_blocks(ROOT / "README.md")
    assert step.strip() in emit(linear()).source
    in_c = re.findall(r"```c\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    source = emit(gpt(65, 1000), "c").source
    assert in_c and all(part in source for shown in in_c for part in excerpts(shown))
    namespace: dict[str, object] = {}
    for block in code:
        exec(block, namespace)
    assert namespace["y_hat"].shape == (150, 3)


def test_the_landing_page_shows_what_is_emitted():
    page, namespace = ROOT / "docs/index.md", {}
    [code] = python_blocks(page)
    exec(code, namespace)
    [shown] = re.findall(r"```c\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert all(part in namespace["artifact"].source for part in excerpts(shown))


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs/tutorial/first-model.md"
    namespace: dict[str, object] = {}
    for block in python_blocks(page):
        exec(block, namespace)
    assert (tmp_path / "out/gated.py").exists()
    assert namespace["loss"] < 0.05
    text = page.read_text(encoding="utf-8")
    printed = capsys.readouterr().out.splitlines()
    assert f"# {printed[0]}" in text
    for line in printed[1:]:
        assert f"    {line}\n" in text


PRINTING = [
    *sorted((ROOT / "docs/howto").glob("*.md")),
    ROOT / "docs/tutorial/scratch.md",
    ROOT / "docs/tutorial/pytorch.md",
    ROOT / "docs/tutorial/neuron-to-gpt.md",
    ROOT / "docs/tutorial/pinn.md",
    ROOT / "docs/explanation/numbers.md",
    ROOT / "docs/reference/command-line.md",
]


@pytest.mark.parametrize("page", PRINTING, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_the_howtos_run(page, tmp_path, monkeypatch, capsys):
    """Each page prints the indented text below its code."""
    target = {"neuron-to-gpt": "c", "pinn": "c"}.get(page.stem, page.stem)
    built = ("c", "cuda", "ggml", "javascript", "scratch")
    if target in built and (reason := get_backend(target).missing()):
        pytest.skip(reason)
    if page.stem == "scratch-tokenizers":
        pytest.importorskip("tokenizers", reason="the library tokenizers is not installed")
    if page.stem == "import-pytorch":
        register()
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    known = dict(TRANSLATIONS)
    for block in python_blocks(page):
        exec(block, namespace)
    for name in set(TRANSLATIONS) - set(known):  # must not leak into other tests
        del TRANSLATIONS[name]
    TRANSLATIONS.update(known)
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert capsys.readouterr().out.splitlines() == re.findall(r"^    (.+)$", prose, re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "target", "language", "tasks", "count"),
    [
        ("loops.md", "c", "c", ["rows"], 3),
        (
            "gpu-schedules.md",
            "cuda",
            "cpp",
            ["rows", "words", "small", "product", "rectified", "image", "features", "heads"],
            16,
        ),
    ],
)
def test_the_kernels_shown_are_emitted(page, target, language, tasks, count):
    text = (ROOT / "docs/explanation" / page).read_text(encoding="utf-8")
    namespace: dict[str, object] = {}
    for block in python_blocks(ROOT / "docs/explanation" / page):
        exec(block, namespace)
    sources = [emit(namespace[name](), target).source for name in tasks]
    shown = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert len(shown) == count
    for block in shown:
        places = [[source.find(part) for part in excerpts(block)] for source in sources]
        assert any(-1 not in found for found in places), block


def test_the_step_shown_is_emitted():
    page = ROOT / "docs/explanation/emitted-code.md"
    namespace: dict[str, object] = {}
    for block in python_blocks(page):
        exec(block, namespace)
    for language, target in (("c", "c"), ("cpp", "cuda"), ("py", "numpy")):
        text = "".join(map(str, default_emit(namespace["gpt"], target).files.values()))
        blocks = re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        assert blocks
        for block in blocks:
            places = list(map(text.find, filter(None, excerpts(block))))
            assert -1 not in places, block
            assert places == sorted(places)


ELSEWHERE = {
    "docs/index.md",
    "docs/tutorial/first-model.md",
    "README.md",
    "docs/explanation/loops.md",
    "docs/explanation/gpu-schedules.md",
    "docs/explanation/numpy-speed.md",
    "docs/explanation/emitted-code.md",
    "docs/reference/scratch-language.md",
    "docs/contributing.md",
    "docs/explanation/cuda-simulator.md",  # by test_cuda_wrong_kernels.py
}
"""Pages whose code is run by a test of their own."""


def test_no_page_has_code_that_no_test_runs():
    pages = {page for page in PAGES if python_blocks(page)}
    assert pages == {*PRINTING, *(ROOT / page for page in ELSEWHERE)}


def test_the_convolution_shown_is_emitted():
    [block] = python_blocks(ROOT / "docs/explanation/numpy-speed.md")
    images, filters = NdArrayType((8, 32, 64, 64)), NdArrayType((16, 32, 3, 3))
    term = build(lambda x, weight: ops.conv(x, layers.label("weight", weight), padding=1), [images, filters])
    source = emit(Functions({"f": term})).source
    for line in block.splitlines():
        code = line.partition("  #")[0].partition(" = ")[2].replace("weight", "")
        assert re.sub(r"\w+", "", code) in re.sub(r"\w+", "", source)


def test_the_sprite_shown_is_assembled():
    text = (ROOT / "docs/reference/scratch-language.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```text\n(.*?)```", text, re.DOTALL)[:1]
    namespace = {"text": program}
    for block in python_blocks(ROOT / "docs/reference/scratch-language.md"):
        exec(block, namespace)
    assert namespace["data"].startswith(b"PK")


def test_the_operation_shown_is_a_whole_declaration():
    """Run in another process, as a declaration registers its operation."""
    [block] = python_blocks(ROOT / "docs/contributing.md")
    program = f"""
import numpy as np
from catgrad import NdArrayType
from catgrad.ops import softplus, tanh
from catgrad.ops.activations import FloatMap
from catgrad.terms.term import singleton
from catgrad.testing import check_conformance, check_derivative, in_float64, operation_cases

{block}
check_derivative(singleton(mish, in_float64(NdArrayType((2, 3)))))
for case in operation_cases():
    if case.name.startswith("Mish"):
        check_conformance("numpy", case)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


COMMANDS = re.findall(r"^    catgrad (.+?)(?: +#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_readme_run(command, tmp_path):
    done = run(*command.split(), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_reference_lists_every_module():
    files = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "catgrad").rglob("*.py")]
    modules = {".".join(file.parts) for file in files if not file.name.startswith("__")}
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md")]
    listed = re.findall(r"^::: (.+)$", "\n".join(pages), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert modules <= set(listed)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_have_targets(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    prose = "\n".join(line for line in lines if not line.startswith("    "))
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def slugs(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[\s-]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_have_anchors(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            found = page.parent / target if target else page
            assert anchor in slugs(found), f"{page.name} links to {target}#{anchor}"


def test_the_figures_of_the_readme_are_those_of_the_benchmark():
    """Each ratio in the README's table is in the JSON of `make bench`, rounded as written."""
    from benchmarks.records import RESULTS, read

    rows = (row for file in sorted(RESULTS.rglob("*.json")) for row in read(file).rows)
    kept = [ratio for row in rows for ratio in row.ratios.values()]
    table = re.findall(
        r"^\| .* \| ([\d.]+) \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(table) >= 5
    for written in table:
        assert any(abs(ratio - float(written)) <= 0.03 * ratio for ratio in kept), written


def test_times_of_emitted_c_stand_on_the_page_of_figures_alone():
    """The page that explains them has no table but of instructions: a new measurement leaves none behind."""
    from benchmarks import figures

    page = (ROOT / "docs/explanation/c-speed.md").read_text(encoding="utf-8")
    assert "../reference/figures.md" in page
    of_times = re.sub(
        r"^## Instructions on aarch64\n.*?(?=^## |\Z)", "", page, flags=re.DOTALL | re.MULTILINE
    )
    assert not re.findall(r"^\|.*", of_times, re.MULTILINE)
    times = set(re.findall(r"[\d.]+ (?:ns|µs|ms)\b", figures.page()))
    assert not times & set(re.findall(r"[\d.]+ (?:ns|µs|ms)\b", page))


def test_the_page_of_figures_has_every_row_that_is_kept():
    from benchmarks import figures

    assert figures.PAGE.read_text(encoding="utf-8") == figures.page()


def test_the_page_of_support_has_every_operation_and_target():
    """The results are kept beside it; `python -m tools.list_support` adds those that are missing."""
    from tools.list_support import KEPT, PAGE, page

    columns = json.loads(KEPT.read_text(encoding="utf-8"))
    assert set(columns) == set(backends())
    operations = {case.operation for case in operation_cases()}
    assert all(set(column) == operations for column in columns.values())
    assert PAGE.read_text(encoding="utf-8") == page(columns)


def test_the_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [catgrad.__version__]


def test_pages_have_every_row_that_was_measured():
    from benchmarks import part
    from benchmarks.compiler import depth, torch_import
    from benchmarks.records import read
    from benchmarks.tiny import accuracy as tiny_accuracy
    from benchmarks.tiny import eight

    tiny, neon = (import_module(f"benchmarks.{name}.__main__") for name in ("tiny", "neon"))
    for each in (part, depth, torch_import, tiny, eight, tiny_accuracy, neon):
        page, rows = each.PAGE.read_text(encoding="utf-8"), read(each.JSON).rows
        for table in each.tables(rows) if hasattr(each, "tables") else [each.table(rows)]:
            assert table in page, each.__name__


def test_the_command_line_has_the_commands_and_options_of_its_page():
    from catgrad.cli.commands import command

    page = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    commands = command().commands
    listed = re.findall(r"^\| `catgrad (\w+)", page, re.MULTILINE)
    assert listed == [
        "emit", "compile", "derive", "verify", "draw", "playground", "check", "certify", "save", "hash",
        "summary", "cost", "run", "targets", "ops", "doctor", "clean",
    ]  # fmt: skip
    assert set(commands) == set(listed)
    for name, found in commands.items():
        for option in (text for each in found.params for text in each.opts if text.startswith("-")):
            rows = [row for row in page.splitlines() if f"`{option}" in row]
            assert any(f"`{name}`" in row or "| all |" in row for row in rows), f"{option} of {name}"


def test_links_of_the_built_site_are_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there/index.html").write_text('<h2 id="part">', encoding="utf-8")
    links = [
        "there/",
        "there/#part",
        "/there/",
        "https://example.org/gone",
        "gone/",
        "there/#gone",
        "gone.png",
    ]
    text = "".join(f'<a href="{link}">' for link in links[:-1]) + f'<img src="{links[-1]}">'
    (tmp_path / "index.html").write_text(text, encoding="utf-8")
    assert [link for _, link in check_links.broken(tmp_path)] == ["gone/", "there/#gone", "gone.png"]
