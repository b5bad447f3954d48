"""What a figure shows, as numbers: to compare two pictures without comparing their drawings."""

import math
import re

TOLERANCE = 1e-3
"""Of the largest number that a list of numbers holds."""


def data_of(figure, measured: bool) -> dict:
    """Axes, labels and what is drawn in them; of a measured figure all but its numbers."""
    axes = [_axes_data(axes, measured) for axes in figure.axes]
    title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else ""
    texts = [text.get_text() for text in figure.texts if text.get_text() != title]
    return {"measured": measured, "title": _words(title, measured), "axes": axes,
            "texts": [_words(text, measured) for text in texts]}


def difference(stored: dict | None, shown: dict | None) -> str:
    """What differs between two pictures' data, in words; empty when nothing does."""
    if stored is None or shown is None:
        return "holds no data"
    return _difference(stored, shown, "")


def _axes_data(axes, measured: bool) -> dict:
    legend = axes.get_legend()
    data = {
        "labels": [_words(text, measured) for text in
                   (axes.get_title("left") or axes.get_title(), axes.get_xlabel(), axes.get_ylabel())],
        "legend": [text.get_text() for text in legend.get_texts()] if legend else [],
        "kinds": sorted({type(artist).__name__ for artist in
                         (*axes.lines, *axes.patches, *axes.collections, *axes.images)}),
    }
    if measured:
        return data
    data["ticks"] = [label.get_text() for axis in (axes.xaxis, axes.yaxis)
                     for label in axis.get_ticklabels() if re.search("[a-zA-Z]{2}", label.get_text())]
    data["texts"] = [text.get_text() for text in axes.texts]
    data["lines"] = [_summary(line.get_xydata()) for line in axes.lines]
    data["patches"] = _patches(axes.patches)
    data["collections"] = [_collection(collection) for collection in axes.collections]
    data["images"] = [_summary(image.get_array()) for image in axes.images]
    return data


def _words(text: str, measured: bool) -> str:
    return re.sub(r"[\d.,]*\d", "#", text) if measured else text


def _patches(patches) -> dict:
    """Corners of all patches together, and their colours."""
    corners = [patch.get_patch_transform().transform_path(patch.get_path()).vertices
               for patch in patches]
    colours = sorted({_colour(patch.get_facecolor()) for patch in patches})
    return {"count": len(patches), "corners": [_summary(points) for points in _joined(corners)],
            "colours": colours}


def _joined(corners) -> list:
    import numpy

    return [numpy.concatenate(corners)] if corners else []


def _collection(collection) -> dict:
    return {"paths": [_summary(points) for points in _joined([path.vertices for path in collection.get_paths()])],
            "offsets": _summary(collection.get_offsets())}


def _colour(rgba) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgba)


def _summary(values) -> list:
    """How many there are, and per column: the least, the largest, the mean, and the mean square."""
    import numpy

    table = numpy.ma.filled(numpy.ma.asarray(values, dtype=float), numpy.nan)
    if not table.size:
        return [[0]]
    table = table.reshape(len(table), -1) if table.ndim > 1 else table.reshape(-1, 1)
    columns = table.T if table.shape[1] == 2 else [table.ravel()]
    summary = [list(table.shape)]
    for column in columns:
        finite = column[numpy.isfinite(column)]
        if len(finite):
            numbers = (finite.min(), finite.max(), finite.mean(), math.sqrt((finite**2).mean()))
            summary.append([float(f"{number:.5g}") for number in numbers])
    return summary


def _difference(stored, shown, place: str) -> str:
    if isinstance(stored, dict) and isinstance(shown, dict) and stored.keys() == shown.keys():
        parts = ((stored[key], shown[key], f"{place} {key}") for key in stored)
    elif isinstance(stored, list) and isinstance(shown, list) and len(stored) == len(shown):
        if _are_numbers(stored) and _are_numbers(shown):
            scale = max(map(abs, (*stored, *shown)), default=0.0)
            near = all(abs(a - b) <= TOLERANCE * scale for a, b in zip(stored, shown))
            return "" if near else f"shows other data than the run:{place} {stored}, now {shown}"
        parts = ((a, b, f"{place} {i + 1}") for i, (a, b) in enumerate(zip(stored, shown)))
    else:
        return "" if stored == shown else f"shows other data than the run:{place} {stored!r}, now {shown!r}"
    return next(filter(None, (_difference(*part) for part in parts)), "")


def _are_numbers(values: list) -> bool:
    return all(type(value) in (int, float) for value in values)
