"""The attacks, one file an idea, and the one table of them. Each sees a `Leak` and nothing else."""

from demo.attacker.attacks.base import Attack, Budget, Snapshot
from demo.attacker.attacks.best import Best
from demo.attacker.attacks.descent import Descent
from demo.attacker.attacks.grab import Grab
from demo.attacker.attacks.likelihood import Likelihood
from demo.attacker.attacks.robust import RobustSpan
from demo.attacker.attacks.rows import Rows
from demo.attacker.attacks.search import Search
from demo.attacker.attacks.span import Span

__all__ = ["ATTACKS", "OLD_NAMES", "Attack", "Budget", "Snapshot", "current"]

DLG = Descent(
    "Deep Leakage from Gradients (Zhu et al. 2019, as re-run on BERT): descends on the squared distance.",
    "l2",
    rate=0.1,
    steps=2500,
)
TAG = Descent(
    "TAG (Deng et al. 2021): adds the absolute distance, weighted most at the first layer.",
    "l2+l1",
    "adamw",
    rate=0.05,
    steps=1000,
    unit_length=True,
)
COSINE = Descent(  # without LAMP's language model
    "Cosine distance with many starts and reorderings, as Li et al. 2024 and LAMP (Balunović et al. 2022).",
    "cosine",
    rate=0.01,
    decay=0.89,
    steps=2000,
    length_pull=1.0,
    starts=500,
    orders=500,
    reorder_every=75,
)

ATTACKS: dict[str, Attack] = {
    "best": Best(COSINE, Grab()),
    "search": Search(),
    "span": Span(),
    "robust-span": RobustSpan(),
    "rows": Rows(),
    "grab": Grab(),
    "likelihood": Likelihood(),
    "cosine": COSINE,
    "tag": TAG,
    "dlg": DLG,
}
OLD_NAMES = {"certified": "search"}  # in links, recordings and commands from before


def current(name: str) -> str:
    """An attack's name of today: certified -> search; others as they are."""
    return OLD_NAMES.get(name, name)
