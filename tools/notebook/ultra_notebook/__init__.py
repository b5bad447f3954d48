"""What a chapter's kernel offers: the magic `%%c++` and, in Python cells, `workbook_run`,
`workbook_json`, `device_run`, `region`, `picture`, `predict`, `problems` and `COLORS`. kernel.py loads it
as an IPython extension."""

from .device import device_run
from .exercises import problems
from .cells.magic import CppMagic
from .pictures.picture import picture
from .plotting import COLORS
from .predict import predict
from .quote import region
from .training import workbook_json, workbook_run
from .workspace import current_workspace


def load_ipython_extension(shell) -> None:
    """Called by IPython when a chapter's kernel starts."""
    magic = CppMagic(current_workspace(), shell.user_ns)
    shell.register_magic_function(magic, magic_kind="cell", magic_name="c++")
    shell.push(
        {
            "workbook_run": workbook_run,
            "workbook_json": workbook_json,
            "device_run": device_run,
            "region": region,
            "picture": picture,
            "predict": predict,
            "problems": problems,
            "COLORS": COLORS,
        },
        interactive=False,
    )
