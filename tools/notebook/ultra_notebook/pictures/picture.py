"""A chapter's pictures: on the page with their alt text, and the key ones beside the text as files.

    picture(alt="What is to be seen.")     shows the current figure
    picture("ring_steps")                  a key picture: figures/ring_steps.svg beside the chapter's
                                           Markdown, which code hosts show; its alt text stands there,
                                           ![What is to be seen.](figures/ring_steps.svg)

run.py compares a key picture's data with those of the file, so that it cannot go stale.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ..failures import NotebookError
from .picture_data import data_of, difference
from .picture_svg import svg_of
from ..workspace import current_workspace

METADATA = "ultra_picture"
IMAGE = re.compile(r"^!\[([^\]]*)\]\(figures/([\w-]+)\.svg\)[ \t]*$", re.MULTILINE)
DATA = re.compile(r"<metadata>(.*?)</metadata>", re.DOTALL)


@dataclass(frozen=True)
class KeyPicture:
    """One that an executed notebook has shown."""

    key: str
    svg: str

    @property
    def data(self) -> dict | None:
        return stored_data(self.svg)


def picture(key: str | None = None, *, alt: str | None = None, measured: bool = False) -> None:
    """Shows the current figure and closes it; `measured` when its numbers differ from run to run.

    @raises NotebookError without an alt text
    """
    import matplotlib.pyplot as plt
    from IPython.display import display

    if key is not None:
        alt = alt_texts(current_workspace().chapter_file).get(key)
        if not alt:
            raise NotebookError(f"the text has no line ![what is to be seen](figures/{key}.svg)")
    if not alt:
        raise NotebookError("a picture needs alt='what is to be seen'")
    figure = plt.gcf()
    svg = svg_of(figure, alt, json.dumps(data_of(figure, measured), separators=(",", ":")))
    plt.close(figure)
    display(
        {"image/svg+xml": svg, "text/plain": alt},
        metadata={"image/svg+xml": {METADATA: {"alt": alt, "key": key}}},
        raw=True,
    )


def alt_texts(chapter_file: Path) -> dict[str, str]:
    """The alt texts of a chapter's key pictures."""
    return {key: alt for alt, key in IMAGE.findall(chapter_file.read_text(encoding="utf-8"))}


def settings_of(output) -> dict:
    """What picture() has said of an output: alt and key; empty for any other."""
    return output.get("metadata", {}).get("image/svg+xml", {}).get(METADATA, {})


def key_pictures(notebook) -> list[KeyPicture]:
    """Those that the cells of an executed notebook have shown."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return [
        KeyPicture(settings_of(output)["key"], output["data"]["image/svg+xml"])
        for output in outputs
        if settings_of(output).get("key")
    ]


def stored_data(svg: str) -> dict | None:
    """The data in a picture's file; None when it has none."""
    found = DATA.search(svg)
    try:
        return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    except (TypeError, ValueError):
        return None


def picture_faults(chapter_file: Path, shown: list[KeyPicture]) -> list[str]:
    """What is wrong with the key pictures in the folder beside a chapter's text."""
    folder, faults = chapter_file.parent / "figures", []
    keys = [picture.key for picture in shown]
    for picture in shown:
        file = folder / f"{picture.key}.svg"
        stored = stored_data(file.read_text(encoding="utf-8")) if file.is_file() else None
        what = "is not there" if not file.is_file() else difference(stored, picture.data)
        if what:
            faults.append(f"figures/{picture.key}.svg {what}")
    faults += [f"two cells show the key picture {key}" for key in keys if keys.count(key) > 1]
    files = {file.stem for file in folder.glob("*.svg")}
    named = set(alt_texts(chapter_file))
    faults += [f"figures/{key}.svg is shown by no cell" for key in sorted((files | named) - set(keys))]
    return faults


def write_pictures(chapter_file: Path, shown: list[KeyPicture]) -> list[str]:
    """Writes the files whose data differ; returns their names."""
    folder = chapter_file.parent / "figures"
    written = []
    for picture in shown:
        file = folder / f"{picture.key}.svg"
        if file.is_file() and not difference(stored_data(file.read_text(encoding="utf-8")), picture.data):
            continue
        folder.mkdir(exist_ok=True)
        file.write_text(picture.svg, encoding="utf-8")
        written.append(file.name)
    return written
