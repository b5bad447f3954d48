"""One colour per kind of memory or time, in every figure of the workbook.

The colours are those of Okabe and Ito ("Color Universal Design", 2008), told apart by colour-blind
readers too. The rest of the figures' look is in tools/notebook/matplotlibrc.
"""

COLORS = {
    "parameters": "#0072B2",
    "gradients": "#E69F00",
    "optimizer": "#009E73",
    "activations": "#D55E00",
    "communication": "#CC79A7",
    "other": "#8C8C8C",
    "compute": "#0072B2",
    "exposed_communication": "#CC79A7",
    "idle": "#C8C8C8",
    "predicted": "#1A1A1A",
    "measured": "#56B4E9",
}
"""By the names that the metrics use."""
