"""Predict a number, then run: what the reader expects is asked before a cell shows what is so.

    sent = predict("How many MB does each rank send in one step?", unit="MB")
    sent.check(run.summary["ranks"][0]["sent_bytes"] / 1e6)
"""

import math

from IPython.display import Markdown, display

from .exercises import is_executed_as_a_test
from .failures import NotebookError

import quantities  # isort: skip  (of tools/exercises, on the path since .exercises)


class Prediction:
    """A question, the reader's number if there is one, and the truth when it is known."""

    def __init__(self, question: str, unit: str, tolerance: float, mine: float | None):
        self.question, self.unit, self.tolerance, self.mine = question, unit, tolerance, mine

    def check(self, truth: float) -> None:
        """Shows the truth, and how far the reader's number is from it."""
        truth = float(truth)
        if not math.isfinite(truth):
            raise NotebookError(f"'{self.question}' has the answer {truth}: the run gave no number")
        answer = f"**The run says {quantities.shown(truth, self.unit)}.**"
        if self.mine is not None:
            verdict = quantities.judge(self.mine, truth, self.tolerance, self.unit)
            answer = f"You said {quantities.shown(self.mine, self.unit)}. {answer} {verdict.text}"
        elif is_executed_as_a_test():
            answer = f"<details>\n<summary>After your prediction</summary>\n\n{answer}\n\n</details>"
        display(Markdown(answer))


def predict(
    question: str, unit: str = "", tolerance: float = 0.05, mine: float | str | None = None
) -> Prediction:
    """Asks for a number, of someone who reads in Jupyter; a page shows the question."""
    in_unit = f" (in {unit})" if unit and unit not in question.split() else ""
    display(Markdown(f"**Predict, before you run on:** {question}{in_unit}"))
    if mine is None and not is_executed_as_a_test():
        mine = _ask()
    try:
        number = None if mine is None else quantities.value_of(str(mine), unit)
    except quantities.BadNumber as error:
        raise NotebookError(f"{error}; run the cell again") from None
    return Prediction(question, unit, tolerance, number)


def _ask() -> str | None:
    """What the reader types; None for an empty line, or where nothing can be typed."""
    try:
        return input("Your number: ").strip() or None
    except (EOFError, NotImplementedError, RuntimeError):  # StdinNotImplementedError is the last
        return None
