"""Starts the kernel of the chapters: the stock Python kernel with `%%c++` and the helpers loaded.

Cells run in the root of the checkout, so `./workbook run 01` and `region("solutions/...")` read
the same in every chapter.
"""

import os
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

from ipykernel.kernelapp import IPKernelApp  # noqa: E402  (after the path)
from traitlets.config import Config  # noqa: E402

from ultra_notebook.workspace import current_workspace  # noqa: E402


def kernel_config() -> Config:
    """Figures as SVG, our extension, and nothing that a test would have to wait for."""
    config = Config()
    config.IPKernelApp.extensions = ["ultra_notebook"]
    config.InlineBackend.figure_formats = {"svg"}
    config.InlineBackend.print_figure_kwargs = {"bbox_inches": "tight", "metadata": {"Date": None}}
    config.HistoryManager.enabled = False
    return config


def main() -> None:
    """Runs until the kernel is shut down."""
    os.environ["MATPLOTLIBRC"] = str(TOOLS / "matplotlibrc")
    workspace = current_workspace()
    os.environ.update(workspace.environment())
    os.chdir(workspace.root)
    IPKernelApp.launch_instance(config=kernel_config())


if __name__ == "__main__":
    main()
