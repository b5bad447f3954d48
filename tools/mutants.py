"""Mutants of a C++ source: copies with one small change each, as a hasty writer makes them.

It knows our layout (clang-format), not the language: what it makes need not compile. Nothing is changed in
messages, assertions, declarations of functions and what only reserves memory.
"""

import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<gap>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
  | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
  | (?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*(?:\.\d*)?(?:[eE][+-]?\d+)?)[uUlLfFzZ]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<operator>->|\+\+|--|&&|\|\||::|<<|[-+*/%&|^<>=!]=|.)
""", re.VERBOSE | re.MULTILINE | re.DOTALL)
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
BINARY = {"<": ("<=",), "<=": ("<",), ">": (">=",), ">=": (">",), "==": ("!=",), "!=": ("==",),
          "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("/",),
          "<<": (">>",), ">>": ("<<",), "&": ("|",), "|": ("&",),
          "+=": ("-=", "="), "-=": ("+=", "="), "*=": ("/=", "="), "/=": ("*=", "=")}
PAIRS = ("min max", "fminf fmaxf", "true false", "floor ceil", "kReduce kStore", "kForward kBackward", "kOn kOff",
         "next_rank prev_rank", "continue break")
MEMBERS = ("next prev", "begin end", "first second", "front back", "columns rows", "x y", "rank size")
NAMES = {a: b for pair in PAIRS for a, b in (pair.split(), pair.split()[::-1])}
NAMES_OF_MEMBERS = {a: b for pair in MEMBERS for a, b in (pair.split(), pair.split()[::-1])}
LEFT_ALONE = {"ensure", "reserve", "static_assert", "__launch_bounds__", "alignas", "labeled"}
SYMMETRIC = {"min", "max", "fminf", "fmaxf", "swap", "gcd"}
NOT_A_NUMBER = "[](std::floating_point auto x) { return x * NAN; }"
ORDERED = re.compile(r"wait\(|sync|barrier|rename")  # what is worth a change of the order
CONTROL = {"if", "for", "while", "switch"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """What stands instead of text[begin:end]."""

    begin: int
    end: int
    new: str
    kind: str
    line: int
    before: str  # the lines that it changes, as one
    after: str

    def apply(self, text):
        return text[:self.begin] + self.new + text[self.end:]


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    begin: int
    end: int


class Source:
    """The tokens of a source, its brackets and its statements."""

    def __init__(self, text):
        self.text = text
        self.tokens = [Token(m.lastgroup, m.group(), m.start(), m.end())
                       for m in TOKEN.finditer(text) if m.lastgroup != "gap"]
        self.partner = {}
        self.block_of = []  # of each token: the opening brace of the block that it stands in directly, or None
        self.in_function = []
        self.statements = {}  # first token: last token
        self.left_alone = set()
        self._match_brackets()
        self._find_statements()
        self._leave_alone()

    def at(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def cut(self, first, last):
        """The text of tokens first to last."""
        return self.text[self.tokens[first].begin:self.tokens[last].end]

    def spaced(self, i):
        """Whether there is white space on both sides, as around binary operators."""
        token = self.tokens[i]
        return self.text[token.begin - 1].isspace() and self.text[token.end:token.end + 1].isspace()

    def adjacent(self, i):
        """Whether token i follows the one before it without a space."""
        return i > 0 and self.tokens[i - 1].end == self.tokens[i].begin

    def _match_brackets(self):
        stack = []  # (index, "block" of a function, "scope" of a class or namespace, or "" for others)
        for i, token in enumerate(self.tokens):
            if token.kind == "operator" and token.text in CLOSING and stack:
                opening = stack.pop()[0]
                self.partner[opening], self.partner[i] = i, opening
            inner = stack[-1] if stack else (None, "scope")
            self.block_of.append(inner[0] if inner[1] else -1)
            self.in_function.append(any(kind == "block" for _, kind in stack))
            if token.kind == "operator" and token.text in OPENING:
                stack.append((i, self._brace_kind(i, inner[1]) if token.text == "{" else ""))

    def _brace_kind(self, i, outside):
        before = self.at(i - 1)
        if before in {")", "else", "do", "try", "const", "noexcept", "mutable", "override", "]"}:
            return "block"
        start = i
        while start > 0 and self.at(start - 1) not in {";", "{", "}", "(", ",", "=", "return"}:
            start -= 1
            if self.at(start) == "->" and self.at(start - 1) == ")":
                return "block"  # a lambda that says what it returns
        if outside and {"namespace", "struct", "class", "enum"} & {self.at(k) for k in range(start, i)}:
            return "scope"
        return "block" if outside and before in {"{", "}", ";", ":"} else ""

    def _find_statements(self):
        headers = {self.partner.get(k) for k in range(len(self.tokens))
                   if self.at(k) == "(" and self.at(k - 1) in CONTROL | {"constexpr"}}
        for i, token in enumerate(self.tokens):
            if self.block_of[i] == -1 or token.text in CONTROL | {"{", "}", "else", "do"}:
                continue
            if i and not (self.at(i - 1) in {";", "{", "}", "else", "do", ":"} or i - 1 in headers):
                continue
            last = i
            while last < len(self.tokens) and self.at(last) not in {";", "}"}:
                last = self.partner.get(last, last) + 1 if self.at(last) in OPENING else last + 1
            if self.at(last) == ";":
                self.statements[i] = last

    def _leave_alone(self):
        for i, token in enumerate(self.tokens):
            if token.text in LEFT_ALONE and self.at(i + 1) == "(":
                self.left_alone.update(range(i, self.partner.get(i + 1, i) + 1))
            if self.at(i) == self.at(i + 1) == "[":
                self.left_alone.update(range(i, self.partner.get(i, i) + 1))
        for first, last in self.statements.items():
            if self.at(first) in {"throw", "using", "static_assert"}:
                self.left_alone.update(range(first + 1, last))
            if not self.in_function[first] and self.at(first) in {"constexpr", "const"}:
                for k in range(first, last):
                    self.in_function[k] = True  # a constant of the whole file

    def right_operand(self, i):
        """The last token of the operand that begins with token i; None if it is none."""
        while self.at(i) in {"-", "!", "*", "&"}:
            i += 1
        if self.at(i) == "(":
            i = self.partner[i]
        elif self.tokens[i].kind not in ("name", "number"):
            return None
        while True:
            if self.at(i + 1) == "<" and self.adjacent(i + 1):
                i = self.template_end(i + 1)
            elif self.at(i + 1) in {"(", "[", "{"} and self.adjacent(i + 1) and self.at(i + 1):
                i = self.partner[i + 1]
            elif self.at(i + 1) in {".", "->", "::"}:
                i += 2
            else:
                return i

    def left_operand(self, i):
        """The first token of the operand that ends with token i; None if it is none."""
        while True:
            while self.at(i) in {")", "]", "}"}:
                i = self.partner[i]
                if not self.adjacent(i) or self.tokens[i - 1].kind != "name" and self.at(i - 1) not in {">", ")", "]"}:
                    return i
                i -= 1
            if self.at(i) == ">":
                while i > 0 and self.at(i) != "<":
                    i -= 1
                i -= 1
            if self.tokens[i].kind not in ("name", "number"):
                return None
            if self.at(i - 1) not in {".", "->", "::"}:
                return i
            i -= 2

    def template_end(self, i):
        depth = 0
        for k in range(i, len(self.tokens)):
            depth += {"<": 1, ">": -1}.get(self.at(k), 0)
            if depth == 0:
                return k
        return i

    def arguments(self, opening):
        """(first, last) token of each argument in the brackets; none where they are no arguments."""
        found, first, k = [], opening + 1, opening + 1
        while k < self.partner[opening]:
            if self.at(k) == ";":
                return []
            if self.at(k) == ",":
                found.append((first, k - 1))
                first = k + 1
            k = self.partner[k] + 1 if self.at(k) in OPENING else k + 1
        return found + [(first, k - 1)]

    def is_expression(self, first):
        """Whether the statement that begins with this token declares nothing and leaves nothing."""
        if self.at(first) in {"++", "--", "*", "("}:
            return True
        if self.tokens[first].kind != "name" or self.at(first) in {"return", "auto", "using", "throw"}:
            return False
        k = first + 1
        while self.at(k) == "::" or self.at(k) == "<" and self.adjacent(k):
            k = k + 2 if self.at(k) == "::" else self.template_end(k) + 1
        return self.at(k) not in {"*", "&", ";", "&&"} and self.tokens[k].kind == "operator"

    def value_of(self, first, last):
        """The first and last token of what a statement assigns or returns; None if it does neither."""
        k = first
        while k < last and self.at(k) not in {"return", "=", "+=", "-="}:
            k = self.partner[k] + 1 if self.at(k) in OPENING else k + 1
        return (k + 1, last - 1) if k + 1 < last and self.at(k + 1) not in {"{", "["} else None


def mutants(text):
    """All mutants of a source, in the order of their places; no two are the same text."""
    source = Source(text)
    found = {}
    for first, last, new, kind in _changes(source):
        begin, end = source.tokens[first].begin, source.tokens[last].end
        if new == text[begin:end] or any(k in source.left_alone for k in (first, last)):
            continue
        start = text.rfind("\n", 0, begin) + 1
        stop = text.find("\n", end)
        before, after = (_one_line(part) for part in (text[start:stop], text[start:begin] + new + text[end:stop]))
        line = text.count("\n", 0, begin) + 1
        mutant = Mutant(begin, end, new, kind, line, before, after)
        found.setdefault(re.sub(r"\s+", "", mutant.apply(text)), mutant)
    return sorted(found.values(), key=lambda m: (m.begin, m.end, m.new))


def _one_line(text):
    return " ".join(re.sub(r"//[^\n]*", "", text).split())


def _changes(source):
    """(first token, last token, what stands there instead, kind) of each change; some are the same."""
    for i, token in enumerate(source.tokens):
        if not source.in_function[i]:
            continue
        if token.kind == "number":
            for new in _other_numbers(token.text):
                yield i, i, new, "number"
        elif token.kind == "name":
            yield from _changes_of_name(source, i)
        elif token.kind == "operator":
            yield from _changes_of_operator(source, i)
    yield from _changes_of_statements(source)


def _other_numbers(text):
    parts = re.fullmatch(r"(0[xX][0-9a-fA-F']+|\d[\d']*)(.*)", text)
    value, rest = int(parts.group(1).replace("'", ""), 0), parts.group(2)
    yield f"{value + 1}{rest}"
    if value > 0:
        yield f"{value - 1}{rest}"


def _changes_of_name(source, i):
    name = source.at(i)
    if name in NAMES and source.at(i + 1) != "::":
        yield i, i, NAMES[name], "name"
    if name in NAMES_OF_MEMBERS and source.at(i - 1) in {".", "->"} and source.at(i + 1) != "=":
        yield i, i, NAMES_OF_MEMBERS[name], "name"
    if name == "if" and source.at(i + 1) == "(":
        close = source.partner[i + 1]
        if not any(source.at(k) == ";" for k in range(i + 2, close)):
            yield i + 2, close - 1, "false", "condition"


def _changes_of_operator(source, i):
    operator = source.at(i)
    if operator in BINARY and source.spaced(i):
        for new in BINARY[operator]:
            yield i, i, new, "operator"
        right = source.right_operand(i + 1)
        left = source.left_operand(i - 1)
        if operator in {"+", "-", "*", "/", "%"} and right is not None and left is not None:
            if operator not in {"+", "-"} or source.tokens[i + 1].kind != "number":
                yield i - 1, right, source.at(i - 1), "operand dropped"
            if operator in {"-", "/", "%"} and source.at(left - 1) != operator:  # x - a - b is x - b - a
                swapped = f"{source.cut(i + 1, right)} {operator} {source.cut(left, i - 1)}"
                yield left, right, swapped, "operands swapped"
    elif operator == "!" and source.at(i + 1) != "=":
        yield i, i, "", "negation"
    elif operator in {"(", "{"} and i in source.partner and source.block_of[i + 1] != i:
        yield from _swapped_arguments(source, i)


def _swapped_arguments(source, i):
    close = source.partner[i]
    is_symmetric = bool({source.at(i - 1), source.at(i - 2)} & SYMMETRIC)  # max(a, b), max({a, b})
    if is_symmetric or source.at(i - 1) in CONTROL or source.at(close + 1) in {"{", "mutable", "->", "noexcept"}:
        return
    arguments = source.arguments(i)
    for (a, b), (c, d) in zip(arguments, arguments[1:]):
        parts = source.cut(a, b), source.cut(c, d)
        if any(re.search(r'"|\[[&=]|^$', part) or part.count("<") != part.count(">") for part in parts):
            continue
        if source.at(a) == source.at(c) == ".":  # values with names
            a, c = a + 3, c + 3
        elif "." in (source.at(a), source.at(c)):
            continue
        between = source.text[source.tokens[b].end:source.tokens[c].begin]
        yield a, d, source.cut(c, d) + between + source.cut(a, b), "arguments swapped"


def _changes_of_statements(source):
    for first, last in source.statements.items():
        value = source.value_of(first, last) if source.in_function[first] else None
        if value and '"' not in source.cut(*value):  # of what is not floating it does not compile
            yield *value, f"{NOT_A_NUMBER}({source.cut(*value)})", "not a number"
    expressions = {first: last for first, last in source.statements.items()
                   if source.in_function[first] and source.is_expression(first)
                   and not any(source.at(k) == "reserve" for k in range(first, min(first + 4, last)))}
    for first, last in expressions.items():
        after = last + 1
        if source.at(first - 1) != ")" or source.at(after) == "else":  # or it is all that an `if` or a loop has
            yield first, last, ";", "statement dropped"
        if (after in expressions and source.at(first - 1) in {";", "{", "}"}
                and ORDERED.search(source.cut(first, expressions[after]))):
            between = source.text[source.tokens[last].end:source.tokens[after].begin]
            swapped = source.cut(after, expressions[after]) + between + source.cut(first, last)
            yield first, expressions[after], swapped, "statements swapped"
