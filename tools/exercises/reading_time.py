"""How long a text takes to read, counted: its words and the lines of its cells.

A hundred words a minute, and six lines of code: slow, since these texts are worked through. What only draws (folded cells), the sources at
the end and comments count nothing.
"""

import re

WORDS_A_MINUTE = 100
LINES_A_MINUTE = 6
CELL = re.compile(r"^```(.*?)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SAID = re.compile(r"^\*You need: .*? · Reading: about (.*?) · Exercises: .*?\*$", re.MULTILINE | re.DOTALL)
HALVES = {"half an hour": 30, "an hour": 60, "an hour and a half": 90}


def counted_minutes(text):
    """Minutes by the words and the lines."""
    text = COMMENT.sub("", text)
    lines = sum(len(body.splitlines()) for head, body in CELL.findall(text) if "folded" not in head)
    prose = CELL.sub("", text).partition("\n## Sources")[0]
    return len(prose.split()) / WORDS_A_MINUTE + lines / LINES_A_MINUTE


def said_minutes(text):
    """Minutes that a text's first lines promise; None where they do not."""
    said = SAID.search(text)
    if said is None:
        return None
    words = " ".join(said[1].split())
    if words in HALVES:
        return HALVES[words]
    number, unit = re.fullmatch(r"([\d.]+) (hours?|minutes)", words).groups()
    return float(number) * (1 if unit == "minutes" else 60)
