# SPDX-License-Identifier: MIT
"""The parts of the page, in its order. Each has fill(page, runs, quick), which makes its tables and
the data of its figures, and FIGURES: {name: (what draws it, its panels, columns or legend)}."""
import capacity
import cliff
import defaults
import edges
import engines
import figure2
import figure9
import foresight
import hits
import justitia
import latency
import schedules
import speculate
import waiting
import workflows
import workload

PARTS = (capacity, cliff, edges, justitia, foresight, engines, speculate, defaults, workload,
         figure2, figure9, waiting, hits, latency, workflows, schedules)
FIGURES = {name: figure for part in PARTS for name, figure in getattr(part, "FIGURES", {}).items()}


def draw(name, title, data):
    """The figure as SVG: it depends on nothing else."""
    kind, panels, layout = FIGURES[name]
    return kind(title, data, panels, layout)
