"""status --certificate: a page with the exercises that pass, and a hash over the files that do.

The hash is no signature: it says which files were meant, so whoever has them can check them again.
"""

import hashlib
import html
import os
import time

import assignment
import catalog

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 16px/1.5 serif; max-width: 48em; margin: 3em auto; padding: 0 1em }}
td, th {{ text-align: left; padding: .2em 1em .2em 0 }} code {{ font-size: 13px; word-break: break-all }}</style>
<h1>{title}</h1>
<p>{who}{count} of {total} exercises pass their tests, as of {day}.</p>
<table><tr><th>Exercise</th><th>Title</th><th>SHA-256 of the file</th></tr>
{rows}
</table>
<p>Hash of all lines <code>NUMBER SHA-256</code> above, each with a newline at its end:<br><code>{hash}</code></p>
<p>To check: put the files into a checkout's <code>exercises/</code>, run <code>./workbook check --again</code> and
<code>./workbook status --certificate FILE.html</code>, and compare the hashes. A hash names files; it signs nothing.</p>
</html>
"""


def lines_of(exercises):
    """What the hash is of: the exercises' numbers with the hashes of their files."""
    return [f"{e.id} {catalog.sha256_of(catalog.ROOT / e.path)}\n" for e in exercises]


def page(passed, total, name):
    lines = lines_of(passed)
    rows = "\n".join(f"<tr><td>{e.id}</td><td>{html.escape(e.title)}</td><td><code>{line.split()[1]}</code></td></tr>"
                     for e, line in zip(passed, lines))
    return PAGE.format(title="The Ultra-Scale Workbook: exercises passed", rows=rows, count=len(passed), total=total,
                       who=f"{html.escape(name)}: " if name else "", day=time.strftime("%Y-%m-%d"),
                       hash=hashlib.sha256("".join(lines).encode()).hexdigest())


def write(exercises, progress, options):
    passed = [e for e in exercises if e.exists() and not e.is_untouched() and progress.passed_and_unchanged(e)]
    if not passed:
        raise catalog.UsageError("no exercise passes yet, so there is nothing to certify; ./workbook check tests yours")
    target = assignment.users_path(options.certificate)
    draft = target.with_name(f".{target.name}.tmp")
    try:
        draft.write_text(page(passed, len(exercises), options.name), encoding="utf-8")
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    print(f"{target}: {len(passed)} exercise{'' if len(passed) == 1 else 's'}")
    return 0
