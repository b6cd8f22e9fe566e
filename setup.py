"""The parts of the build that pyproject.toml cannot express.

A wheel holds the documents, in `harness/docs`, since messages and pages name them. The README has
absolute links in the metadata, which an index shows without the other files. A source archive has
the same bytes whenever it is built, with the time in `SOURCE_DATE_EPOCH`; setuptools does that for
wheels only.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent

LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")
"""A Markdown link, or a picture, whose target is relative to the README."""

PAGES = {"Documentation": "tree/{at}/docs", "Changelog": "blob/{at}/CHANGELOG.md"}
"""The pages of the repository that an index lists beside it."""


def absolute_links(text: str, repository: str, at: str) -> str:
    """Return the Markdown text with links to the repository's files as of the tag `at`."""

    def absolute(link: re.Match[str]) -> str:
        picture, label, target = link.groups()
        return f"{picture}{label}({repository}/{'raw' if picture else 'blob'}/{at}/{target})"

    return LINK.sub(absolute, text) if repository else text


def project_urls(repository: str, at: str) -> dict[str, str]:
    """Return the addresses that an index lists; none without a repository."""
    if not repository:
        return {}
    pages = {name: f"{repository}/{page.format(at=at)}" for name, page in PAGES.items()}
    return {"Repository": repository, "Issues": f"{repository}/issues"} | pages


class BuildWithDocuments(build_py):
    """Adds the documents to the package."""

    def run(self) -> None:
        """Build the package."""
        super().run()
        if not self.editable_mode:  # else they are found in `docs`
            for document in sorted((ROOT / "docs").glob("*.md")):
                target = Path(self.build_lib, "harness", "docs", document.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(document.read_bytes())


class ReproducibleArchive(sdist):
    """Writes the archive without the times, the owner and the order of the files on this disk."""

    def make_archive(self, base_name, _format, root_dir=None, base_dir=None, **_owner):
        """Write the archive, and return its name."""
        time = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))

        def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = time
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            return entry

        file = f"{base_name}.tar.gz"
        folder = Path(root_dir or ".")
        with (
            open(file, "wb") as raw,  # noqa: PTH123
            gzip.GzipFile("", "wb", fileobj=raw, mtime=time) as data,
            tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted((folder / base_dir).rglob("*")):
                if path.is_file():
                    archive.add(path, path.relative_to(folder).as_posix(), filter=anonymous)
        return file


def main() -> None:
    """Set up the distribution."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    repository, at = (
        settings["tool"]["breaklab"]["repository"],
        f"v{settings['project']['version']}",
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup(
        cmdclass={"build_py": BuildWithDocuments, "sdist": ReproducibleArchive},
        long_description=absolute_links(readme, repository, at),
        long_description_content_type="text/markdown",
        project_urls=project_urls(repository, at),
    )


if __name__ == "__main__":
    main()
