"""Pictures of the notebooks in fewer bytes: a page need not weigh what its runs recorded."""

import re

METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
PLACES = re.compile(r'(?<= )(?:d|x|y|x1|x2|y1|y2|width|height|points)="[^"]*"')
LONG_NUMBER = re.compile(r"\d+\.\d{3,}")
LINES = re.compile(r"L (-?[\d.]+) (-?[\d.]+)(?: L (-?[\d.]+) (-?[\d.]+))+")
POINT = re.compile(r"L (-?[\d.]+) (-?[\d.]+)")


def smaller_svg(text: str) -> str:
    """The same picture without its data, with places to a hundredth of a point, and without the
    points of a line between two others."""

    def short(places: re.Match) -> str:
        rounded = LONG_NUMBER.sub(
            lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), places[0]
        )
        return LINES.sub(_fewer_points, rounded)

    return re.sub(r">\s+<(?!/?tspan)", "><", PLACES.sub(short, METADATA.sub("", text)))


def _fewer_points(lines: re.Match) -> str:
    points = [(float(x), float(y), f"L {x} {y}") for x, y in POINT.findall(lines[0])]
    kept = points[:1]
    for point, behind in zip(points[1:], [*points[2:], None]):
        if point[:2] == kept[-1][:2] or (behind and _is_between(kept[-1], point, behind)):
            continue
        kept.append(point)
    return " ".join(words for _, _, words in kept)


def _is_between(before, point, behind) -> bool:
    """Whether a point lies straight between its neighbours, along one axis."""
    for along, across in ((0, 1), (1, 0)):
        if before[across] == point[across] == behind[across]:
            return (
                min(before[along], behind[along])
                <= point[along]
                <= max(before[along], behind[along])
            )
    return False
