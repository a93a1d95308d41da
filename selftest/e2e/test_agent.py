# SPDX-License-Identifier: MIT
"""The embedded model solves tasks that it has not seen, with real tools, through the real loop."""
import tempfile

import models
from appliance import HANG_S, Appliance, run

# The promise is 95 % of 500, and `make bench` checks it; with 50, chance would decide too often.
TASKS, LEAST = 50, 90


def test_the_embedded_model_solves_held_out_tasks():
    with tempfile.NamedTemporaryFile("w", suffix=".tasks") as file:
        file.write(models.task_file(TASKS))
        file.flush()
        with Appliance() as a:
            done = run("agx", "--to", a.to, "agent", "--least", str(LEAST), file.name,
                       timeout=HANG_S * 5)
    last = done.stdout.splitlines()[-1:]
    print("  " + (last[0] if last else "no answer"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert last[0].startswith("agents: ") and " of %d right" % TASKS in last[0], last
