"""What mkdocs has to know of this repository: pages outside of docs/, and links to them.

Proofs and the files at the root stay where people look for them in a repository. Links are written as they work there
(``../proofs/noise.md``); for the site they are turned to where the pages are in it, and a link to a file that is not in
the site, such as a script, becomes plain text. Pages that nobody has put into the navigation of mkdocs.yml, such as a
new decision, are added to the section of their folder.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OUTSIDE = {
    **{path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "proofs").glob("*.md"))},
    "security.md": ROOT / "SECURITY.md",
    "changelog.md": ROOT / "CHANGELOG.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
}
LINK = re.compile(r"(?<!!)\[(?P<text>[^][]*)\]\((?P<path>(?![a-z]+:)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
"""A link to another file; not a picture, not an address elsewhere."""
OPTIONAL = {"privacy.md": ("Using it", "Threat model and audit")}
"""Pages that may be there, the section that they belong to, and their names."""

FOLDERS = {"proofs": "Proofs", "decisions": "Decisions", "benchmarks": "Measured"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages that exist into the navigation, and take out those that do not."""
    nav: list[dict[str, Any]] = config.nav or []
    for name, (section, title) in OPTIONAL.items():
        if (DOCS / name).exists() and not re.search(rf"'{name}'", str(nav)):
            _section(nav, section).append({title: name})
    for folder, section in FOLDERS.items():
        base = ROOT / folder if folder == "proofs" else DOCS / folder
        for path in sorted(base.glob("*.md")):
            name = f"{folder}/{path.name}"
            if f"'{name}'" not in str(nav):
                _section(nav, section).append(name)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that live elsewhere."""
    for name, path in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    here = page.file.src_uri
    folder = OUTSIDE.get(here, DOCS / here).parent

    def turned(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        inside = _place(target)
        if inside is None:  # nothing that the site has; if it is nothing at all, mkdocs will say so
            return link["text"] if target.exists() else link[0]
        return f"[{link['text']}]({posixpath.relpath(inside, posixpath.dirname(here) or '.')}{link['anchor'] or ''})"

    return LINK.sub(turned, markdown)


def _place(path: Path) -> str | None:
    """Where in the site a file of the repository is."""
    for name, outside in OUTSIDE.items():
        if path == outside:
            return name
    return path.relative_to(DOCS).as_posix() if path.is_file() and path.is_relative_to(DOCS) else None


def _section(nav: list[dict[str, Any]], name: str) -> list[Any]:
    """The list of pages under a title, wherever it is."""
    found = _find(nav, name)
    if found is None:
        raise ValueError(f"mkdocs.yml has no section {name!r}")
    return found


def _find(nav: list[Any], name: str) -> list[Any] | None:
    for item in nav:
        for title, content in item.items() if isinstance(item, dict) else ():
            if not isinstance(content, list):
                continue
            found = content if title == name else _find(content, name)
            if found is not None:
                return found
    return None
