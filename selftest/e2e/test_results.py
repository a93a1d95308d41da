# SPDX-License-Identifier: MIT
"""docs/results.md against its tables and figures: tools/lab/results finds what is not so.

These tests need no trace and no appliance. Pages of a few lines, in a folder of their own, carry
the mistakes; the real page is checked as `make lab-check` does.
"""
import os
import re
import subprocess
import sys
import tempfile
from html import unescape

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, "tools", "lab", "results")
sys.path.append(TOOL)

import check            # noqa: E402
import claims           # noqa: E402
import contexts         # noqa: E402
import sheet            # noqa: E402
from page import Page   # noqa: E402

PAGE = """# A page

<!-- make lab: rates -->
|  | fcfs | agentix |
|---|---|---|
| lats | 0.674 | 0.748 |
| mixed | 1.43 | 3 |
<!-- end -->

On lats the gain is 1.11 times, on mixed
more than twice.

<!-- check
"the gain is 1.11 times": near(a, rates["lats", "agentix"] / rates["lats", "fcfs"])
"on mixed more than twice":
  rates["mixed", "agentix"] > 2 * rates["mixed", "fcfs"]
-->

![Calls run](plots/fig7.svg)
"""
DATA = "panel,line,x,y\n" + "".join(
    f"{panel},own program,{x},{x * x}\n" for panel in ("sharegpt", "lats", "bfcl")
    for x in (1, 2, 3))


class Folder:
    """A page with its plots, in a folder of its own."""
    def __init__(self, text=PAGE, data=DATA):
        self.folder = tempfile.TemporaryDirectory(prefix="agentix-e2e-")
        os.mkdir(self.path("plots"))
        self.put("page.md", text)
        self.put("plots/fig7.csv", data)
        self.page = Page(self.path("page.md"), self.folder.name)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def put(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def faults(self):
        return list(claims.faults("page.md", self.page.text, self.page.tables()))


def faults_of(old, new):
    assert PAGE.count(old) == 1, old
    return Folder(PAGE.replace(old, new)).faults()


def test_claims_that_hold_have_no_fault():
    folder = Folder()
    assert folder.faults() == []
    assert len(claims.claims(folder.page.text)) == 2


def test_a_false_claim_is_named_with_its_sentence_line_and_cells():
    fault, = faults_of("| mixed | 1.43 | 3 |", "| mixed | 1.43 | 2 |")
    assert fault.startswith("page.md:15: "), fault
    for part in (': "On lats the gain is 1.11 times, on mixed more than twice." is not so',
                 "rates[mixed, agentix] is 2", "rates[mixed, fcfs] is 1.43"):
        assert part in fault, fault


def test_a_number_of_the_words_counts_with_its_decimals():
    assert Folder(PAGE.replace("1.11 times", "1.1 times")).faults() == []
    for wrong in ("1.2", "1.12", "1.109"):
        fault, = Folder(PAGE.replace("1.11 times", wrong + " times")).faults()
        assert "near(a, " in fault, fault


def test_words_that_changed_without_their_check_are_found():
    fault, = faults_of("On lats the gain is 1.11 times", "On lats it gains 1.11 times")
    assert 'does not say "the gain is 1.11 times"' in fault, fault


def test_a_check_cannot_rely_on_words_of_another_section():
    fault, = faults_of("<!-- check\n\"the", "# Next\n\nOn mixed more than twice, "
                       "on mixed more than twice\n\n<!-- check\n\"the")
    assert "does not say" in fault, fault


def test_a_slip_in_an_expression_is_a_fault_and_reaches_no_file():
    for slip in ('rates["none", "agentix"] > 0', 'rates["lats", "absent"] > 0', "near(a",
                 "open('x') == 0", "strange > 0", '1 + rates.rows', "1 / 0"):
        fault, = faults_of('near(a, rates["lats", "agentix"] / rates["lats", "fcfs"])', slip)
        assert "Error" in fault and fault.startswith("page.md:14: "), fault


def test_a_line_that_is_no_claim_is_found():
    fault, = faults_of('"the gain is 1.11 times":', "the gain is 1.11 times:")
    assert "does not say" in fault, fault


def figure_faults(folder):
    return [fault for fault in check.figure_faults(folder.page) if "fig7" in fault]


def test_a_figure_that_is_not_of_its_data_or_title_is_found():
    folder = Folder()
    assert "make lab-draw" in figure_faults(folder)[0]
    check.draw(folder.page, ["fig7"])
    assert figure_faults(folder) == []
    folder.put("plots/fig7.csv", DATA.replace("3,9", "3,8"))
    assert "make lab-draw" in figure_faults(folder)[0]
    folder.put("plots/fig7.csv", DATA)
    folder.page.text = PAGE.replace("Calls run", "Calls wait")
    assert "make lab-draw" in figure_faults(folder)[0]
    os.remove(folder.path("plots/fig7.csv"))
    assert "is not there" in figure_faults(folder)[0]


def test_a_figure_that_was_run_has_its_place_and_one_that_was_not_needs_none():
    folder = Folder(PAGE.replace("![Calls run](plots/fig7.svg)", ""))
    assert "not both" in figure_faults(folder)[0]
    os.remove(folder.path("plots/fig7.csv"))
    assert figure_faults(folder) == []


# Two programs of 110 and 210 tokens; they begin with the same 40, one goes on with 20 of its own.
CONTEXTS = """agentix-trace 1
program a 0 x
call 0 after=- gap=0 in=s:doc:40+u:10 out=10
call 1 after=0 gap=0 in=p:0+o:0+u:30 out=20
program b 5 x
call 0 after=- gap=0 in=s:doc:40+s:tool:20+u:100 out=50
call 1 after=0 gap=0 in=p:0:50 out=1
"""


def test_programs_fit_by_their_longest_contexts():
    folder = Folder()
    folder.put("t.trace", CONTEXTS)
    path = folder.path("t.trace")
    programs = contexts.read(path)
    assert [program.tokens for program in programs] == [110, 210]
    assert contexts.fit(programs, "program", 1600) == 10
    assert contexts.shared(programs) == 60      # and 70 and 150 of their own
    assert contexts.fit(programs, "domain", 1600) == (1600 - 60) / 110
    assert contexts.fit(programs, "domain", 80) == 80 / 160
    assert contexts.whole(path, 210, folder.folder.name) == path
    short = contexts.whole(path, 209, folder.folder.name)
    assert [program.tokens for program in contexts.read(short)] == [110]


def test_the_lab_replaces_tables_and_data_and_no_word():
    folder = Folder()
    folder.page.table("rates", ["", "fcfs", "agentix"], [["lats", "0.5", "0.6"]])
    folder.page.figure("fig7", ["panel", "line", "x", "y"], [["lats", "agentix", 1, 2 / 3]])
    assert folder.page.write() == []
    again = Page(folder.path("page.md"), folder.folder.name)
    assert again.tables()["rates"]["lats", "agentix"] == 0.6
    assert again.data("fig7")["lats", "agentix", 1, "y"] == 0.6667
    table = r"<!-- make lab: rates -->.*?<!-- end -->"
    assert re.sub(table, "", again.text, flags=re.S) == re.sub(table, "", PAGE, flags=re.S)
    folder.page.table("homeless", ["", "a"], [])
    assert folder.page.write() == ["homeless"]


def test_the_page_of_the_repository_holds():
    done = subprocess.run([sys.executable, TOOL, "--check"], cwd=ROOT, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_text_of_a_figure_is_cut():
    folder = os.path.join(ROOT, "docs", "plots")
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".svg")):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            svg = file.read()
        width = float(re.search(r'viewBox="0 0 (\d+) ', svg).group(1))
        for x, anchor, size, bold, turned, words in re.findall(
                r'<text x="([-\d.]+)" y="[-\d.]+" text-anchor="(\w+)" font-size="(\d+)"'
                r'( font-weight="bold")?( transform)?[^>]*>([^<]*)<', svg):
            wide = float(size) * len(unescape(words)) * (sheet.EM_BOLD if bold else sheet.EM)
            wide *= 0.65 if turned and anchor == "end" else 0 if turned else 1
            left = float(x) - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor]
            assert -1 <= left and left + wide <= width + 1, (name, words)
