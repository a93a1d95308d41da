# SPDX-License-Identifier: MIT
"""The Python client as a package: a wheel that installs without a network, no word of a newer
Python than it promises, and types that hold."""
import ast
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

from appliance import HANG_S, NOISE, ROOT, Appliance
from skip import Skip, long
from test_auth import ALICE, KeyFile

PYTHON_FOLDER = os.path.join(ROOT, "tools", "sdk", "python")
CLIENTS = os.path.join(ROOT, "build", "clients")       # tools/setup door makes it
OLDEST = (3, 9)
PROGRAM = """
import sys, agentix
with agentix.connect(sys.argv[1]) as ax, ax.program("review", agent="reviewer") as p:
    replies = p.gather([[1, 2], [1, 3]], max_tokens=4, ignore_eos=True)
print(agentix.__file__, agentix.__version__, p.totals.calls, p.totals.generated_tokens)
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources():
    return sorted(glob.glob(os.path.join(PYTHON_FOLDER, "**", "*.py"), recursive=True))


def oldest_python():
    """One that runs, or Skip: a version manager puts names into PATH that run nothing."""
    name = "python%d.%d" % OLDEST
    managed = os.path.expanduser("~/.pyenv/versions/%d.%d.*/bin/" % OLDEST + name)
    for python in [name, *glob.glob(managed)]:
        try:
            run(python, "--version")
            return python
        except (OSError, AssertionError):
            continue
    raise Skip("no %s here: only it can prove that the package runs on it" % name)


def make_wheel(folder):
    return run(sys.executable, os.path.join(PYTHON_FOLDER, "wheel.py"), folder).strip()


def run_program(python, to, **environment):
    """PROGRAM under that Python, from a folder that has no agentix."""
    with tempfile.TemporaryDirectory() as empty:
        return run(python, "-c", PROGRAM, to, cwd=empty,
                   env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1",
                        **environment}).split()


def test_the_wheel_is_whole_and_always_the_same():
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first, second = make_wheel(one), make_wheel(two)
        with open(first, "rb") as a, open(second, "rb") as b:
            assert a.read() == b.read()
        with zipfile.ZipFile(first) as wheel:
            names = wheel.namelist()
            record = wheel.read(next(name for name in names if name.endswith("RECORD"))).decode()
    assert [line.split(",")[0] for line in record.splitlines()] == names
    package = {"agentix/" + os.path.basename(path) for path in sources()
               if os.path.dirname(path).endswith("agentix")}
    assert package | {"agentix/py.typed"} == {name for name in names if "dist-info" not in name}


def test_a_fresh_environment_that_has_the_wheel_alone_runs_a_program():
    with tempfile.TemporaryDirectory() as folder, Appliance(NOISE) as a:
        wheel, python = make_wheel(folder), os.path.join(folder, "venv", "bin", "python")
        run(sys.executable, "-m", "venv", "--without-pip", os.path.join(folder, "venv"))
        site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        with zipfile.ZipFile(wheel) as archive:         # what an installer does with such a wheel
            archive.extractall(site)
        file, version, *numbers = run_program(python, a.to)
        assert file.startswith(site) and numbers == ["2", "8"], (file, numbers)
        told = run(python, "-c", "import importlib.metadata as m; print(m.version('agentix'))")
        assert told.strip() == version


@long
def test_pip_installs_the_folder_without_a_network():
    if subprocess.run([sys.executable, "-c", "import ensurepip"], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("no ensurepip here: python3-venv has it (tools/setup door)")
    with tempfile.TemporaryDirectory() as folder, Appliance(NOISE) as a:
        run(sys.executable, "-m", "venv", os.path.join(folder, "venv"))
        copy = shutil.copytree(PYTHON_FOLDER, os.path.join(folder, "python"))
        run(os.path.join(folder, "venv", "bin", "pip"), "install", "--no-index", copy)
        file, *_ = run_program(os.path.join(folder, "venv", "bin", "python"), a.to)
        assert "site-packages" in file, file


def test_the_sources_are_of_the_oldest_python_that_they_promise():
    """Its grammar. An annotation is never evaluated: each file says so."""
    for path in sources():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        tree = ast.parse(text, path, feature_version=OLDEST)
        has_annotations = any(isinstance(node, (ast.AnnAssign, ast.FunctionDef))
                              for node in ast.walk(tree))
        assert "from __future__ import annotations" in text or not has_annotations, path


def test_the_package_says_what_it_and_the_appliance_are():
    with Appliance(NOISE) as a:
        told = run(sys.executable, "-m", "agentix", a.to, cwd=PYTHON_FOLDER)
    assert told.startswith("agentix ") and a.to + ": model 'random weights" in told, told
    with KeyFile("alice %s\n" % ALICE[1].hex()) as keys, \
            Appliance(NOISE, "auth.tcp=psk", "auth.keys=" + keys) as a:
        told = run(sys.executable, "-m", "agentix", a.to, "--key-file", keys, cwd=PYTHON_FOLDER)
    assert a.to + ": model 'random weights" in told, told


def test_the_oldest_python_runs_a_program():
    with Appliance(NOISE) as a:
        assert run_program(oldest_python(), a.to, PYTHONPATH=PYTHON_FOLDER)[-2:] == ["2", "8"]


def test_types_hold():
    mypy = os.path.join(CLIENTS, "bin", "mypy")
    if not os.path.exists(mypy):
        raise Skip("needs PyPI: there is no build/clients/bin/mypy (tools/setup door makes it)")
    with tempfile.TemporaryDirectory() as cache:
        run(mypy, "--cache-dir", cache, "agentix", "wheel.py", cwd=PYTHON_FOLDER)
