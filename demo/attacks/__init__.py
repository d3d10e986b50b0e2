"""The attacks, one file an idea, and the one table of them. Each sees a `Leak` and nothing else."""

from demo.attacks.base import Attack, Budget, Snapshot
from demo.attacks.best import Best
from demo.attacks.certified import Certified
from demo.attacks.descent import Descent
from demo.attacks.rows import Rows
from demo.attacks.span import Span

__all__ = ["ATTACKS", "Attack", "Budget", "Snapshot"]

DLG = Descent("l2", rate=0.1, steps=2500)  # Zhu et al. 2019, as re-run on BERT
TAG = Descent("l2+l1", "adamw", rate=0.05, steps=1000, unit_length=True)  # Deng et al. 2021
COSINE = Descent(  # Li et al. 2024 and LAMP (Balunović et al. 2022), without LAMP's language model
    "cosine", rate=0.01, decay=0.89, steps=2000, length_pull=1.0, starts=500, orders=500, reorder_every=75
)

ATTACKS: dict[str, Attack] = {
    "best": Best(COSINE),
    "certified": Certified(),
    "span": Span(),
    "rows": Rows(),
    "cosine": COSINE,
    "tag": TAG,
    "dlg": DLG,
}
