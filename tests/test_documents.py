"""The README and the documents: short enough, true to the files, and their examples run."""

import contextlib
import io
import re
import shlex

import pytest

from demo.bench import documents, paper_tables
from demo.bench.defense_tables import STUDIES
from demo.bench.options import parser
from demo.bench.server import APP
from demo.ui.read_tab import DOCUMENTS, document

ROOT = APP.parent
FILES = [ROOT / "README.md", *sorted((ROOT / "assets" / "docs").glob("*.md"))]
CODE = re.compile(r"(?:^ {4}.*\n|^\n(?= {4}))+", re.M)  # what Markdown takes for code


def blocks(text: str) -> list[str]:
    return [re.sub(r"^ {4}", "", block, flags=re.M) for block in CODE.findall(text)]


def test_the_readme_can_be_read():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_document_is_on_the_page():
    assert {file.stem for file in FILES[1:]} == set(DOCUMENTS)
    assert all(len(document(name)) > 500 for name in DOCUMENTS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_links_lead_to_files(file):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", file.read_text(encoding="utf-8")):
        assert (file.parent / target).exists(), target


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_commands_are_understood(file):
    for line in re.findall(r"python -m demo\.benchmark ([^`\n]+)", file.read_text(encoding="utf-8")):
        parser("").parse_args(shlex.split(line.split("  #")[0].rstrip(")")))


def test_measured_tables_are_those_of_the_results():
    """`python -m demo.benchmark document` writes them; nobody types them."""
    text = documents.DOCUMENT.read_text(encoding="utf-8")
    assert documents.updated(text) == text
    there = [name for _, name, _, _ in documents.TABLE.findall(text)]
    assert sorted(there) == sorted(file.stem for file in paper_tables.RESULTS.glob("*.csv"))
    assert set(there) == {*STUDIES, *documents.LAYOUTS, *paper_tables.TABLES}


def test_a_typed_figure_is_put_right():
    text = documents.DOCUMENT.read_text(encoding="utf-8")
    assert "0 / 47.3" in text
    assert documents.updated(text.replace("0 / 47.3", "0 / 99.9")) == text
    with pytest.raises(ValueError, match="there is no table 'unmeasured'"):
        documents.updated("<!-- table: unmeasured -->\n\n\n\n<!-- end of table -->")


def test_the_readmes_program_runs(server):
    """As it stands there, but for the address."""
    (program,) = [block for block in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if "Client(" in block]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(
            program.replace("http://127.0.0.1:7860", server.rstrip("/")).replace(
                "Client(", "Client(verbose=False, src="
            )
        )
    assert "i keep the key under the mat ." in said.getvalue().lower().splitlines()[-1]
