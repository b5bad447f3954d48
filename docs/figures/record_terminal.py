#!/usr/bin/env python3
"""Runs a command in a terminal and writes what it showed, as it showed it, into an animated SVG.

    docs/figures/record_terminal.py --output docs/figures/first_run.svg --rows 19 --speed 8 -- ./workbook run

Of a long output --rows keeps the beginning. Long pauses are shortened, and a reader who wants no motion sees the last screen. Standard library only.
"""

import argparse
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from html import escape

COLUMNS = 110
LINE, LETTER, MARGIN = 17, 7.8, 14
LONGEST_PAUSE = 1.2
"""Seconds of nothing new that are shown; more are left out."""
SMALLEST_STEP = 0.25
"""Seconds between two pictures of a line that changes all the time."""
LAST_SCREEN = 6.0
CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[()][A-Z0-9]|[\r\n\b\x07]")

STYLE = """text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; fill: #1f2328; white-space: pre }
rect { fill: #f6f8fa; stroke: #d0d7de }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } rect { fill: #161b22; stroke: #30363d } }
@media (prefers-reduced-motion: reduce) { * { animation: none !important } .gone { visibility: hidden } }
"""


class Screen:
    """Lines that never scroll away: what a command printed, with what it has overwritten."""

    def __init__(self):
        self.lines = [""]
        self.row = self.column = 0

    def feed(self, text):
        """Takes what the command wrote; the rows that changed."""
        changed, at = set(), 0
        for match in CONTROL.finditer(text):
            self._write(text[at:match.start()], changed)
            self._control(match, changed)
            at = match.end()
        self._write(text[at:], changed)
        return changed

    def _write(self, text, changed):
        if not text:
            return
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[:self.column] + text + line[self.column + len(text):]
        self.column += len(text)
        changed.add(self.row)

    def _control(self, match, changed):
        count = int(match[1]) if (match[1] or "").isdigit() else 1
        match match[2] or match[0]:
            case "\r":
                self.column = 0
            case "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            case "\b":
                self.column = max(0, self.column - 1)
            case "A":
                self.row = max(0, self.row - count)
            case "K":
                self.lines[self.row] = self.lines[self.row][:self.column]
                changed.add(self.row)


def record(command):
    """What each row showed and when, as (seconds, row, text); and how the command ended."""
    process, terminal = pty.fork()
    if process == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python has set aside
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    screen, events, shown, last, left_out, waiting = Screen(), [], 0.0, time.monotonic(), 0.0, b""
    begin = last
    while True:
        try:
            select.select([terminal], [], [])
            data = os.read(terminal, 65536)
        except OSError:  # the command has closed its side
            break
        if not data:
            break
        now = time.monotonic()
        left_out += max(0.0, now - last - LONGEST_PAUSE)
        last, waiting = now, waiting + data
        try:
            text, waiting = waiting.decode("utf-8"), b""
        except UnicodeDecodeError:  # in the middle of a letter
            continue
        shown = now - begin - left_out
        events += [(shown, row, screen.lines[row]) for row in sorted(screen.feed(text))]
    _, status = os.waitpid(process, 0)
    return events, os.waitstatus_to_exitcode(status), last - begin


def states(events):
    """Of each row its texts with their first and last moment; None is for ever."""
    rows = {}
    for when, row, text in events:
        found = rows.setdefault(row, [])
        if found and when - found[-1][0] < SMALLEST_STEP:
            found[-1] = (found[-1][0], text)
        elif not found or found[-1][1] != text:
            found.append((when, text))
    for row, found in rows.items():
        ends = [begin for begin, _ in found[1:]] + [None]
        for (begin, text), end in zip(found, ends):
            if text.strip():
                yield row, begin, end, text.rstrip()


def svg(events, title):
    """The animation."""
    length = max(when for when, _, _ in events) + LAST_SCREEN
    found = list(states(events))
    height = (max(row for row, *_ in found) + 1) * LINE + 2 * MARGIN
    width = max(len(text) for *_, text in found) * LETTER + 2 * MARGIN
    css, texts = [STYLE], []
    for number, (row, begin, end, text) in enumerate(found):
        first, last = 100 * begin / length, 100 * (length if end is None else end) / length
        css.append(f"@keyframes k{number} {{ 0%, {first:.2f}% {{ visibility: hidden }} "
                   f"{first + 0.01:.2f}%, {last:.2f}% {{ visibility: visible }} "
                   + ("" if end is None else f"{last + 0.01:.2f}%, 100% {{ visibility: hidden }} ") + "}")
        name = "" if end is None else ' class="gone"'
        texts.append(f'<text{name} x="{MARGIN}" y="{MARGIN + (row + 0.8) * LINE:.0f}" '
                     f'style="animation: k{number} {length:.1f}s step-end infinite">{escape(text)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" role="img">\n<title>{escape(title)}</title>\n<style>\n' + "\n".join(css) +
            f'</style>\n<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8"/>\n'
            + "\n".join(texts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--speed", type=float, default=1, help="times as fast as it was [1]")
    parser.add_argument("--rows", type=int, help="the first rows alone [all]")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    events, code, seconds = record(options.command)
    if code != 0 or not events:
        print(f"error: '{' '.join(options.command)}' ended with exit code {code}; nothing was written", file=sys.stderr)
        return 1
    events = [(when / options.speed, row, text) for when, row, text in events
              if options.rows is None or row < options.rows]
    faster = f", {options.speed:g} times as fast" if options.speed != 1 else ""
    title = f"$ {' '.join(options.command)}, {seconds:.0f} seconds; pauses are shortened{faster}"
    options.output.write_text(svg(events, title), encoding="utf-8")
    print(f"wrote {options.output}: {len(list(states(events)))} states of {max(row for _, row, _ in events) + 1} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
