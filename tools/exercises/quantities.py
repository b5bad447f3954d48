"""Numbers with units, as a learner types them, and how far one is from the right one.

    value_of("3.2 GB", "MB")         3200.0
    judge(3200.0, 3190.0, 0.01)      Verdict(right=True, ...)
"""

import ast
import dataclasses
import math
import operator
import re

PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
            "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
            "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
BASES = ("FLOP/s", "FLOP/B", "FLOP", "B/s", "B", "bit/s", "bit", "token/s", "token", "s")
OTHER_UNITS = {"%": ("", 0.01), "percent": ("", 0.01), "": ("", 1.0), "min": ("s", 60.0),
               "minute": ("s", 60.0), "hour": ("s", 3600.0), "h": ("s", 3600.0),
               "day": ("s", 86400.0), "year": ("s", 365 * 86400.0)}
NUMBER = r"(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
             ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
             ast.Pow: lambda base, exponent: power(base, exponent), ast.USub: operator.neg, ast.UAdd: operator.pos}
FUNCTIONS = {"ceil": math.ceil, "floor": math.floor, "log2": math.log2, "log": math.log,
             "sqrt": math.sqrt, "exp": math.exp, "min": min, "max": max, "round": round,
             "abs": abs, "sum": lambda *terms: sum(terms), "factorial": math.factorial}
CONSTANTS = {"pi": math.pi}


class BadNumber(Exception):
    """What stands there is no number, or one of another unit; the message says which."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a number is right, and what to say of it."""

    right: bool
    text: str


def power(base, exponent):
    """A power; not one of a million digits."""
    if abs(exponent) > 1000 or abs(base) > 1e100:
        raise ValueError("it is too large")
    return base**exponent


def evaluate(expression, names=None):
    """The value of an arithmetic expression; nothing else in it is carried out.

    @raises BadNumber for anything but numbers, the names, arithmetic and FUNCTIONS
    """
    names = {**CONSTANTS, **(names or {})}

    def value(node):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.operand))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in FUNCTIONS:
            return FUNCTIONS[node.func.id](*map(value, node.args))
        raise BadNumber(f"cannot compute '{ast.unparse(node)}' in '{expression}'")

    try:
        return value(ast.parse(expression.strip(), mode="eval").body)
    except SyntaxError as error:
        raise BadNumber(f"'{expression}' is not arithmetic") from error
    except (ArithmeticError, ValueError, TypeError) as error:
        raise BadNumber(f"'{expression}' has no value: {error}") from error


def unit_of(text):
    """(base, factor) of a unit: "GB" is ("B", 1e9); a word is a base of its own."""
    text = text.strip()
    singular = text.removesuffix("s") if len(text) > 2 and not text.endswith("/s") else text
    singular = singular.replace("FLOPs", "FLOP").replace("tokens", "token")
    for word in (text, singular):
        if word in OTHER_UNITS:
            return OTHER_UNITS[word]
        for base in BASES:
            prefix = word.removesuffix(base)
            if word.endswith(base) and prefix in PREFIXES:
                return base, PREFIXES[prefix]
    return singular, 1.0


def value_of(text, unit):
    """The number that a learner has typed, in the wanted unit.

    @raises BadNumber when it is none, or of a unit that cannot be turned into the wanted one
    """
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text.strip().replace("×", "*").replace("'", ""))
    match = re.match(rf"(?:\s*(?:{NUMBER}|[-+*/^()]))+", text)
    number = match[0] if match else ""
    own_unit = text[len(number):].strip()
    if not re.search(r"\d", number):
        raise BadNumber(f"'{text}' is no number; write it like 3.2, 3.2e9, 1/8 or 2^31"
                        + (f", in {unit}" if unit else ""))
    if own_unit.startswith(","):
        raise BadNumber(f"'{text}' is no number; the decimal sign is a point: 3.2")
    value = float(evaluate(number.replace("^", "**").replace(" ", "")))
    if not own_unit:
        return value
    (base, factor), (own_base, own_factor) = unit_of(unit), unit_of(own_unit)
    if base != own_base:
        wanted = f"in {unit}" if unit else "as a number without a unit"
        raise BadNumber(f"the answer is wanted {wanted}, and '{own_unit}' cannot be turned into it")
    return value * own_factor / factor


def shown(value, unit=""):
    """A number for a reader: four digits, and its unit."""
    if value == int(value) and abs(value) < 1e6:
        text = str(int(value))
    elif 1e-3 <= abs(value) < 1e6:
        text = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    else:
        text = f"{value:.4g}"
    return text if not unit else f"{text}{'' if unit == '%' else ' '}{unit}"


def judge(value, truth, tolerance, unit=""):
    """Compares a learner's number with the right one, without telling the right one."""
    if not math.isfinite(value):
        return Verdict(False, "That is no finite number.")
    if is_close(value, truth, tolerance):
        return Verdict(True, "Right." if tolerance == 0 else f"Right, within {shown(100 * tolerance)} %.")
    if truth == 0 or value == 0:
        return Verdict(False, "Not zero." if value == 0 else "Not yet: it is less than that.")
    ratio = value / truth
    if ratio < 0:
        return Verdict(False, "The sign is wrong.")
    return Verdict(False, unit_slip(ratio, unit) or small_factor(ratio) or distance(ratio, tolerance))


def is_close(value, truth, tolerance):
    return math.isclose(value, truth, rel_tol=max(tolerance, 1e-9), abs_tol=1e-12)


def unit_slip(ratio, unit):
    """What a factor between units says, such as 1000 or that of GB and GiB; else nothing."""
    in_unit = f" The answer is wanted in {unit}." if unit else ""
    for power in (1, 2, 3, 4):
        for factor in (1000.0**power, 1024.0**power):
            if math.isclose(max(ratio, 1 / ratio), factor, rel_tol=2e-3):
                much = "too large" if ratio > 1 else "too small"
                return f"The digits are right, and the unit is not: {much} by {factor:g}.{in_unit}"
    if unit == "%" and math.isclose(ratio, 0.01, rel_tol=2e-3):
        return "That is the share itself: the answer is wanted in per cent."
    if unit.endswith("B"):
        for power in (1, 2, 3, 4):
            if math.isclose(max(ratio, 1 / ratio), 1.024**power, rel_tol=1e-3):
                return f"You have mixed up powers of 1000 and of 1024 (GB and GiB).{in_unit}"
    return None


def small_factor(ratio):
    """What a factor of two, four or eight may come from; else nothing."""
    for factor in (2, 4, 8):
        if math.isclose(max(ratio, 1 / ratio), factor, rel_tol=2e-3):
            side = "too large" if ratio > 1 else "too small"
            return (f"Exactly {factor} times {side}. Look at what is counted once or several times: the "
                    "bytes of an element, both directions, both passes, multiply and add.")
    return None


def distance(ratio, tolerance):
    side = "too large" if ratio > 1 else "too small"
    if abs(ratio - 1) <= max(0.1, 3 * tolerance):
        wanted = "the exact number" if tolerance == 0 else f"within {shown(100 * tolerance)} %"
        return f"Near, but {side}; wanted is {wanted}. Is a small term missing, or one too many?"
    if max(ratio, 1 / ratio) > 10:
        return f"Not yet: {side}, by more than a factor of ten."
    return f"Not yet: {side}."
