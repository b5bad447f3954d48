"""Where things are: the chapter that a kernel serves, its checkout and its build folder."""

import os
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
CHAPTER_VARIABLE = "ULTRA_NOTEBOOK"
BUILD_VARIABLE = "ULTRA_BUILD_DIR"


class WorkspaceError(Exception):
    """A chapter or folder that is not there."""


@dataclass(frozen=True)
class Workspace:
    """A chapter's file `chapters/NN_name/NN_name.md` and the build folder to use with it."""

    chapter_file: Path
    build_dir: Path

    @property
    def name(self) -> str:
        return self.chapter_file.stem

    @property
    def root(self) -> Path:
        return root_of(self.chapter_file)

    @property
    def cache_dir(self) -> Path:
        """Compiled cells: they belong to one configuration of the build."""
        return self.build_dir / "notebook_cache"

    def environment(self) -> dict[str, str]:
        """The variables from which a kernel finds this workspace again."""
        return {CHAPTER_VARIABLE: str(self.chapter_file), BUILD_VARIABLE: str(self.build_dir)}


def root_of(chapter_file: Path) -> Path:
    """The checkout that holds chapters/NN_name/NN_name.md."""
    return chapter_file.parents[2]


def default_build_dir(root: Path) -> Path:
    return root / "build" / "release"


def open_workspace(chapter_file: Path, build_dir: Path | None = None) -> Workspace:
    """The workspace of a chapter's file."""
    chapter_file = chapter_file.resolve()
    if not chapter_file.is_file():
        raise WorkspaceError(f"{chapter_file} does not exist")
    build_dir = build_dir or default_build_dir(root_of(chapter_file))
    return Workspace(chapter_file, build_dir.resolve())


def current_workspace() -> Workspace:
    """The workspace of this kernel.

    The runner names the chapter in the environment; JupyterLab starts a kernel in the folder of
    its notebook.
    """
    folder = Path.cwd()
    chapter_file = os.environ.get(CHAPTER_VARIABLE) or folder / f"{folder.name}.md"
    build_dir = os.environ.get(BUILD_VARIABLE)
    return open_workspace(Path(chapter_file), Path(build_dir) if build_dir else None)


def find_chapters(root: Path) -> list[Path]:
    """All chapters' files, in the order of their numbers."""
    files = (folder / f"{folder.name}.md" for folder in root.glob("chapters/[0-9][0-9]_*"))
    return sorted(file for file in files if file.is_file())


def find_chapter(root: Path, wanted: str) -> Path:
    """The file of a chapter given as "1", "01", "01_memory" or a path to its .md."""
    if wanted.endswith(".md"):
        return Path(wanted)
    chapters = find_chapters(root)
    for chapter in chapters:
        if chapter.stem == wanted or chapter.stem[:2] == wanted.zfill(2):
            return chapter
    known = ", ".join(chapter.stem for chapter in chapters) or "none"
    raise WorkspaceError(f"no chapter {wanted}; there are: {known}")
