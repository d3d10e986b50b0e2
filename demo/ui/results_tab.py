"""The tab Results: published figures beside ours, as `python -m demo.benchmark` measured them."""

import json
from typing import Any

import gradio as gr

from demo.bench.defense_tables import HEADERS
from demo.bench.paper_tables import TABLES, read
from demo.ui.notes import QUICKLY

RESULTS = """
## Published figures beside ours
The papers' numbers are from their machines, ours are measured on a CPU with a short budget; the settings come as close
to each other as they can here, and each table says where they differ.
"""
SCRIPT = """
const ready = import(new URL('static/assets/tables/results.js', document.baseURI)).then(
    ({ Results }) => new Results(element.querySelector('.ls-results'), { plotly: 'static/plotly.min.js' }),
);
const show = () => props.value && ready.then((results) => results.show(props.value));
watch('value', show);
show();
"""
COMMAND = "python -m demo.benchmark"
CURVE = {"group": "slice", "x": "sigma", "y": "exact", "hover": "epsilon"}
LABELS = {
    "sigma": "σ",
    "epsilon": "ε",
    "exact": "exact %",
    "recover": "recover %",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
}
NOISE: dict[str, Any] = {
    "name": "dp",
    "title": "How much noise stops the leak",
    "source": "The noise is that of DP-SGD, Abadi et al. 2016 (https://arxiv.org/abs/1607.00133)",
    "about": "The gradient of all parameters is clipped to length 1, and noise of σ is added to every number before a "
    "slice of it leaks. ε is the privacy that 1000 such steps buy, at a sampling rate of 0.01 and δ = 10⁻⁵. Exact: the "
    "share of sentences recovered word for word; cosine: how much of the gradient's direction training keeps.",
    "command": f"{COMMAND} dp --sentences FILE --out dp.jsonl",
    "curve": {name: HEADERS["dp"].index(column) for name, column in CURVE.items()},
}

OTHERS: dict[str, Any] = {
    "name": "defenses",
    "title": "What else stops it",
    "source": "Ours; pruning against leakage is from Zhu et al. 2019, DLG (https://arxiv.org/abs/1906.08935)",
    "about": "Pruning sends only the largest numbers (prune=0.9 leaves out 90 %), masking leaves out random ones, "
    "rounding has fewer bits, sign sends no sizes, companions are other clients in the mean. Exact: the share of "
    "sentences recovered word for word; cosine: how much of the gradient's direction training keeps.",
    "command": f"{COMMAND} defenses --sentences FILE --out defenses.jsonl",
}


def results_tab(tab: gr.Tab) -> None:
    """Read anew whenever the tab is opened, so that a finished measurement shows."""
    gr.Markdown(RESULTS, elem_classes="ls-intro")
    picture = gr.HTML(
        "",
        html_template='<div class="ls-survey ls-results"></div>',
        js_on_load=SCRIPT,
        apply_default_css=False,
        elem_id="results",
    )
    tab.select(lambda: json.dumps(results()), None, picture, **QUICKLY)


def results() -> list[dict[str, Any]]:
    """Every table, with its cells where it was made."""
    papers: list[dict[str, Any]] = [
        {
            "name": name,
            "title": table.title,
            "source": table.source,
            "about": table.about,
            "command": f"{COMMAND} tables --data FOLDER --out tables.jsonl --only {name}",
        }
        for name, table in TABLES.items()
    ]
    return [table | found(table["name"]) for table in [NOISE, OTHERS, *papers]]


def found(name: str) -> dict[str, Any]:
    header, rows = read(name)
    return {"header": [LABELS.get(column, column) for column in header], "rows": rows}
