"""Checks that each link and picture of the built site leads to a file in it, and each fragment to an anchor.

python -m tools.check_links site
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src", "iframe": "src"}


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag links to and is named."""
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if link := values.get(LINKS.get(tag, "")):
            self.links.append(link)


@cache
def page(path: Path) -> Page:
    """Return the page in a file."""
    return Page(path.read_text(encoding="utf-8"))


def broken(site: Path) -> Iterator[tuple[Path, str]]:
    """Return the pages and links that lead nowhere; links to other hosts are not followed."""
    for path in sorted(site.rglob("*.html")):
        for link in dict.fromkeys(page(path).links):
            if not leads(site, path, link):
                yield path.relative_to(site), link


def leads(site: Path, path: Path, link: str) -> bool:
    """Ask whether a link of a page has a target."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    name = unquote(parts.path)
    target = path if not name else site / name[1:] if name.startswith("/") else path.parent / name
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return False
    fragment = unquote(parts.fragment)
    return not fragment or target.suffix != ".html" or fragment in page(target).anchors


def main(site: str) -> int:
    """Print the broken links; return the exit status."""
    found = list(broken(Path(site)))
    for path, link in found:
        print(f"{path}: {link}")
    print(f"{len(found)} broken links in {site}", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
