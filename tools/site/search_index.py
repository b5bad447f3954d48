"""The search's index: every section of every page, and every declaration."""

import json

from articles import Section

LONGEST = 1500
"""Characters of a section that are searched."""


class SearchIndex:
    """Collects what can be found."""

    def __init__(self):
        self._entries: list[list[str]] = []

    def add_page(self, href: str, title: str, sections: list[Section]) -> None:
        """All sections of a page."""
        for section in sections:
            self._entries.append(
                [href, section.anchor, title, section.title, section.text[:LONGEST]]
            )

    def add(self, href: str, anchor: str, page: str, title: str, text: str) -> None:
        """Something on its own."""
        self._entries.append([href, anchor, page, title, text[:LONGEST]])

    def script(self) -> str:
        """The index as a script that a page loads when someone searches."""
        return (
            "window.workbookSearch ="
            f" {json.dumps(self._entries, ensure_ascii=False, separators=(',', ':'))};\n"
        )
