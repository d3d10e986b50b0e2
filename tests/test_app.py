import subprocess
import sys
from pathlib import Path

APP = Path(__file__).parent.parent / "app.py"


def start(*arguments):
    return subprocess.run([sys.executable, str(APP), *arguments], capture_output=True, text=True, cwd=APP.parent)


def test_default_attack_ends_certified():
    done = start("The cat sat on the mat.", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "7.81 % of the model" in done.stdout
    assert "the ✓  cat ✓  sat ✓  on ✓  the ✓  mat ✓  . ✓" in done.stdout
    assert done.stdout.rstrip().endswith("has exactly this gradient.")


def test_bad_input_is_one_line():
    done = start("", "--device", "cpu")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: the sentence is empty: give at least one word"
    assert "Traceback" not in done.stderr
