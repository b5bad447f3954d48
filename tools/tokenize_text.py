"""Makes a file of token ids from texts, for --data FILE --tokens u16 or u32.

    tokenize_text.py TOKENIZER TEXT [TEXT ...] OUT.bin [--tokens u16|u32]

TOKENIZER is any tokenizer.json of Hugging Face, or a folder that has one, as --init's. The ids stand
one after the other, little-endian, as nanoGPT's prepare.py writes them. Nothing is downloaded.
Special tokens are not added. A text is encoded in pieces of a million characters, cut between two
lines; a tokenizer that puts a mark before a text puts it before each piece. (Not named tokenize.py: Python's own module of that name would be
hidden from every tool of this folder.)
"""

import argparse
import os
import sys
import time
from array import array
from pathlib import Path

PIECE = 1 << 20  # characters; then the next seam
WIDTHS = {"u16": ("H", 2), "u32": ("I", 4)}


class Refused(Exception):
    """What the user can mend: one line."""


def load_tokenizer(path):
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise Refused(f"the package tokenizers is not installed in {sys.executable}. "
                      "./workbook tokenize installs it into an environment of its own.") from error
    path = Path(path)
    if path.is_dir():
        folder, path = path, path / "tokenizer.json"
        if not path.exists():
            raise Refused(f"folder '{folder}' has no tokenizer.json. Give a tokenizer.json, or the "
                          "folder of a model that has one.")
    if not path.exists():
        raise Refused(f"tokenizer '{path}' does not exist. Give a tokenizer.json, or its folder.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise Refused(f"'{path}' is no tokenizer.json of Hugging Face's tokenizers: {error}") from error


def is_seam(before, after):
    """Whether tokens end between two lines: no run of white space is cut."""
    return len(before) > 1 and not before[-2].isspace() and not after[0].isspace()


def joined(lines):
    piece = "".join(lines)
    return piece, len(piece.encode())


def pieces_of(path):
    """A text in pieces of some lines, and how many bytes each takes."""
    lines, size = [], 0
    try:
        with open(path, encoding="utf-8", newline="\n") as text:
            for line in text:
                if size >= PIECE and is_seam(lines[-1], line):
                    yield joined(lines)
                    lines, size = [], 0
                lines.append(line)
                size += len(line)
        if lines:
            yield joined(lines)
    except FileNotFoundError as error:
        raise Refused(f"text '{path}' does not exist.") from error
    except UnicodeDecodeError as error:
        raise Refused(f"text '{path}' is not UTF-8: {error.reason} at byte {error.start} of a piece. "
                      "Convert it, for example with iconv.") from error
    except OSError as error:
        raise Refused(f"text '{path}' cannot be read: {error.strerror}.") from error


class Progress:
    """One live line on a terminal, else nothing until the end."""

    def __init__(self, total):
        self.total, self.done, self.begin = total, 0, time.monotonic()
        self.live = sys.stderr.isatty()

    def add(self, read, tokens):
        self.done += read
        if not self.live:
            return
        seconds = max(1e-9, time.monotonic() - self.begin)
        left = seconds * (self.total - self.done) / max(1, self.done)
        print(f"\r\033[K{100 * self.done / max(1, self.total):5.1f}%  {tokens:,} tokens  "
              f"{self.done / seconds / 1e6:.1f} MB/s  {left:.0f} s left", end="", file=sys.stderr)

    def end(self):
        if self.live:
            print("\r\033[K", end="", file=sys.stderr)


def write_ids(tokenizer, texts, out, kind):
    code, width = WIDTHS[kind]
    assert array(code).itemsize == width, "this machine's integers are of other sizes"
    progress = Progress(sum(Path(text).stat().st_size for text in texts if Path(text).exists()))
    tokens = 0
    for text in texts:
        for piece, read in pieces_of(text):
            ids = array(code, tokenizer.encode(piece, add_special_tokens=False).ids)
            if sys.byteorder == "big":
                ids.byteswap()
            ids.tofile(out)
            tokens += len(ids)
            progress.add(read, tokens)
    progress.end()
    return tokens


def make_file(arguments):
    tokenizer = load_tokenizer(arguments.tokenizer)
    vocabulary = tokenizer.get_vocab_size()
    kind = arguments.tokens or ("u16" if vocabulary <= 1 << 16 else "u32")
    if kind == "u16" and vocabulary > 1 << 16:
        raise Refused(f"the tokenizer has {vocabulary:,} tokens, and --tokens u16 holds 65,536. "
                      "Give --tokens u32, or leave it out.")
    unfinished = arguments.out + ".unfinished"
    try:
        with open(unfinished, "wb") as out:
            tokens = write_ids(tokenizer, arguments.texts, out, kind)
        if tokens == 0:
            raise Refused("the texts have no tokens.")
        os.replace(unfinished, arguments.out)
    except OSError as error:
        raise Refused(f"'{arguments.out}' cannot be written: {error.strerror}.") from error
    finally:
        Path(unfinished).unlink(missing_ok=True)
    print(f"{arguments.out}: {tokens:,} tokens of a vocabulary of {vocabulary:,}. Train with "
          f"--data {arguments.out} --tokens {kind} and --init FOLDER, or --vocab {vocabulary}.")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tokenize", description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", help="a tokenizer.json, or a folder that has one")
    parser.add_argument("texts", nargs="+", help="UTF-8 texts")
    parser.add_argument("out", help="the file to make")
    parser.add_argument("--tokens", choices=list(WIDTHS),
                        help="bits of an id [u16 where the vocabulary allows]")
    parser.add_argument("--only-look", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    """With --only-look it makes nothing: ./workbook asks so before it installs what is needed."""
    arguments = parse_arguments()
    if arguments.only_look:
        return 0
    try:
        make_file(arguments)
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nerror: stopped; no file was written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
