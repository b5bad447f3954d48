"""What only a browser can say of the site: complaints of scripts, overflow, contrast, and whether
the figures' numbers are those of the programs."""

from pathlib import Path

import figure_cases
from chromium import Browser, NoBrowser, PageError

WIDTHS = (360, 800, 1400)
SCHEMES = ("light", "dark")
LEAST_CONTRAST = 4.5
LEAST_CONTRAST_LARGE = 3.0
MOST_SHOWN = 3
PROBE = Path(__file__).with_name("probe.js").read_text(encoding="utf-8")


def check_in_browser(output: Path, programs: Path) -> list[str]:
    """The faults, one a line; a SKIPPED line on stdout where there is no browser."""
    try:
        with Browser() as browser:
            faults = []
            for page in sorted(output.glob("*.html")) + sorted(output.glob("source/*.html"))[:2]:
                faults += [
                    f"{page.relative_to(output)}: {fault}" for fault in _page_faults(browser, page)
                ]
            return faults + figure_cases.faults(browser, output, programs)
    except NoBrowser as reason:
        print(f"SKIPPED: what needs a browser: {reason}")
        return []


def _page_faults(browser: Browser, page: Path):
    browser.size(WIDTHS[-1])
    browser.scheme("light")
    browser.open(page.as_uri())
    try:
        _wake_figures(browser)
    except PageError as error:
        yield str(error)
    for width in WIDTHS:
        browser.size(width)
        wide = browser.evaluate(f"(() => {{ {PROBE}; return overflow(); }})()")
        if wide:
            yield f"is wider than {width} px: {', '.join(wide)}"
    for scheme in SCHEMES:
        browser.scheme(scheme)
        weak = browser.evaluate(
            f"(() => {{ {PROBE};"
            f" return weakContrast({LEAST_CONTRAST}, {LEAST_CONTRAST_LARGE}); }})()"
        )
        if weak:
            yield f"too little contrast ({scheme}): {'; '.join(weak[:MOST_SHOWN])}"
    nameless = browser.evaluate(f"(() => {{ {PROBE}; return nameless(); }})()")
    if nameless:
        yield f"has no name for readers of screens: {'; '.join(nameless[:MOST_SHOWN])}"
    for complaint in dict.fromkeys(browser.complaints):
        yield f"the console says: {complaint}"


def _wake_figures(browser: Browser) -> None:
    """Scrolls to every figure, and waits until it computes."""
    count = browser.evaluate("document.querySelectorAll('section.figure[data-figure]').length")
    for index in range(count):
        figure = f"document.querySelectorAll('section.figure[data-figure]')[{index}]"
        browser.evaluate(f"{figure}.scrollIntoView()")
        browser.wait_for(f"['ready', 'problem'].includes({figure}.dataset.state)")
        problem = browser.evaluate(
            f"{figure}.dataset.state === 'problem' &&"
            f" {figure}.querySelector('.problem').textContent"
        )
        if problem:
            raise PageError(f"figure {index} says: {problem}")
    browser.evaluate("scrollTo(0, 0)")
