"""The tab Read: the long-form documents, as they lie in assets/docs; and the way there from the other tabs."""

import gradio as gr

from demo.ui.components import ASSETS

READ_TAB = "read"
DOCUMENTS = {  # file -> its title
    "using": "Using the page",
    "attacks": "How the attacks work",
    "results": "Results, and how they were taken",
    "measuring": "Measuring without a screen",
    "hosting": "Hosting it",
}


def document(name: str) -> str:
    """Its text below the title, which the tab shows itself."""
    _, text = (ASSETS / "docs" / f"{name}.md").read_text(encoding="utf-8").split("\n", 1)
    return text.strip()


def reading_tab() -> None:
    for name, title in DOCUMENTS.items():
        with gr.Accordion(title, open=name == "using", elem_id=f"read-{name}"):
            gr.Markdown(document(name), elem_classes="ls-document")


def read_more(tabs: gr.Tabs, name: str) -> None:
    """A quiet line at the end of a tab that leads to a document."""
    button = gr.Button(f"Read: {DOCUMENTS[name]}", variant="secondary", size="sm", elem_classes="ls-read-more")
    button.click(lambda: gr.Tabs(selected=READ_TAB), outputs=tabs, show_progress="hidden", api_visibility="private")
