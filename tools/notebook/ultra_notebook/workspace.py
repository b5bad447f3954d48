"""Where things are: the notebook that a kernel serves, its checkout and its build folder."""

import os
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]
CHAPTER_VARIABLE = "ULTRA_NOTEBOOK"
BUILD_VARIABLE = "ULTRA_BUILD_DIR"
EXECUTED_VARIABLE = "ULTRA_NOTEBOOK_EXECUTED"
"""Set where run.py executes a notebook, and nobody sits before it."""


class WorkspaceError(Exception):
    """A chapter or folder that is not there."""


@dataclass(frozen=True)
class Workspace:
    """A notebook's file and the build folder to use with it.

    A chapter's own is `chapters/NN_name/NN_name.md`; its rooms may have one each,
    `chapters/NN_name/room/room.md`.
    """

    chapter_file: Path
    build_dir: Path

    @property
    def name(self) -> str:
        return notebook_name(self.chapter_file)

    @property
    def chapter(self) -> str:
        return chapter_folder(self.chapter_file).name

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


def chapter_folder(file: Path) -> Path:
    """The folder `chapters/NN_name` of a notebook's file."""
    folder = file.parent
    return folder if folder.parent.name == "chapters" else folder.parent


def notebook_name(file: Path) -> str:
    """ "04_zero" for a chapter's own notebook, "04_zero.offload" for that of a room."""
    chapter = chapter_folder(file)
    return chapter.name if file.parent == chapter else f"{chapter.name}.{file.parent.name}"


def is_notebook(file: Path) -> bool:
    """Whether this is the place of a notebook's file."""
    named = file.suffix == ".md" and file.stem == file.parent.name
    return named and chapter_folder(file).parent.name == "chapters"


def root_of(chapter_file: Path) -> Path:
    """The checkout that holds a notebook's file."""
    return chapter_folder(chapter_file).parents[1]


def default_build_dir(root: Path) -> Path:
    return root / "build" / "release"


def open_workspace(chapter_file: Path, build_dir: Path | None = None) -> Workspace:
    """The workspace of a notebook's file."""
    chapter_file = chapter_file.resolve()
    if not chapter_file.is_file():
        raise WorkspaceError(f"{chapter_file} does not exist")
    build_dir = build_dir or default_build_dir(root_of(chapter_file))
    return Workspace(chapter_file, build_dir.resolve())


def current_workspace() -> Workspace:
    """The workspace of this kernel.

    The runner names the file in the environment; JupyterLab starts a kernel in the folder of
    its notebook.
    """
    folder = Path.cwd()
    chapter_file = os.environ.get(CHAPTER_VARIABLE) or folder / f"{folder.name}.md"
    build_dir = os.environ.get(BUILD_VARIABLE)
    return open_workspace(Path(chapter_file), Path(build_dir) if build_dir else None)


def find_chapters(root: Path) -> list[Path]:
    """All chapters' own notebooks, in the order of their numbers."""
    files = (folder / f"{folder.name}.md" for folder in root.glob("chapters/[0-9][0-9]_*"))
    return sorted(file for file in files if file.is_file())


def find_rooms(chapter_file: Path) -> list[Path]:
    """The notebooks of a chapter's rooms, by name."""
    files = chapter_file.parent.glob("*/*.md")
    return sorted(file for file in files if is_notebook(file))


def find_notebooks(root: Path) -> list[Path]:
    """All notebooks: each chapter's own, then those of its rooms."""
    return [file for own in find_chapters(root) for file in (own, *find_rooms(own))]


def find_notebook(root: Path, wanted: str) -> Path:
    """A notebook given as "4", "04", "04_zero", "04/offload" or a path to its .md."""
    if wanted.endswith(".md"):
        return Path(wanted)
    chapter, _, room = wanted.partition("/")
    own = find_chapter(root, chapter)
    if not room:
        return own
    rooms = {file.stem: file for file in find_rooms(own)}
    if room in rooms:
        return rooms[room]
    known = ", ".join(rooms) or "none beside its own"
    raise WorkspaceError(f"{own.stem} has no notebook {room}; there are: {known}")


def find_chapter(root: Path, wanted: str) -> Path:
    """The own notebook of a chapter given as "1", "01" or "01_memory"."""
    chapters = find_chapters(root)
    for chapter in chapters:
        if chapter.stem == wanted or chapter.stem[:2] == wanted.zfill(2):
            return chapter
    known = ", ".join(chapter.stem for chapter in chapters) or "none"
    raise WorkspaceError(f"no chapter {wanted}; there are: {known}")
