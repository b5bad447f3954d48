"""The book as a site of static pages: ./workbook site.

site build             writes build/site
site check             looks at every page and link of build/site
site check --browser   the same in headless Chromium, and what the figures compute
site test              builds the pages without outputs in a folder of its own, and checks them
site test --browser    the same with figures, in headless Chromium; 77 where that cannot be
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / one) for one in ("notebook", "exercises", "."))]
ROOT = HERE.parents[1]
SKIPPED = 77
"""What ctest takes for skipped."""


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="site", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument(
        "--stored",
        action="store_true",
        help="take executed notebooks whose text is the same, whatever code has changed since",
    )
    build.add_argument("--no-figures", action="store_true", help="compile nothing to WebAssembly")
    for command in (build, commands.add_parser("check"), commands.add_parser("test")):
        command.add_argument("--output", type=Path, default=ROOT / "build" / "site")
        command.add_argument("--browser", action="store_true")
        command.add_argument("--programs", type=Path, default=ROOT / "build" / "release" / "bin")
    return parser.parse_args()


def build(options: argparse.Namespace) -> int:
    """Writes the site."""
    from builder import build_site
    from executed import Outputs

    outputs = Outputs.STORED if options.stored else Outputs.FRESH
    return build_site(ROOT, options.output.resolve(), outputs, with_figures=not options.no_figures)


def check(options: argparse.Namespace) -> int:
    """Looks at a site that is there."""
    from check_pages import check_site

    faults = check_site(options.output.resolve())
    if options.browser:
        from check_browser import check_in_browser

        faults += check_in_browser(options.output.resolve(), options.programs)
    print("\n".join(faults) or "The site is whole")
    return 1 if faults else 0


def test(options: argparse.Namespace) -> int:
    """Builds a site without outputs and looks at it."""
    from builder import build_site
    from executed import Outputs

    if options.browser:
        reason = why_no_browser_test()
        if reason:
            print(f"SKIPPED: {reason}")
            return SKIPPED
    failed = build_site(ROOT, options.output.resolve(), Outputs.NONE, with_figures=options.browser)
    return failed or check(options)


def why_no_browser_test() -> str:
    """What is missing for it; empty when nothing is."""
    from chromium import NoBrowser, find_chromium
    from wasm import NoCompiler, find_compiler

    try:
        find_chromium()
        find_compiler()
    except (NoBrowser, NoCompiler) as missing:
        return str(missing)
    return ""


def main() -> int:
    """Runs the command that was asked for."""
    options = parse_arguments()
    return {"build": build, "check": check, "test": test}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
