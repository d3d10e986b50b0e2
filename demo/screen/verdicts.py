"""The verdict: what came of a run in a headline, and the figures behind it."""

from demo.attacker.attacks.objectives import GRADIENT
from demo.attacker.certificate import Certificate
from demo.runs.engine import Case, Experiment, Frame, kept_for_weighing

GRADIENTS = GRADIENT.title[0].lower() + GRADIENT.title[1:]  # the same figure has the same name over a curve


def verdict(frame: Frame, case: Case, experiment: Experiment) -> tuple[str, str]:
    """The headline and the figures behind it: a certificate, or how far it got and why not further."""
    shot = frame.snapshot
    told = f"{in_place(frame, case)} in {shot.seconds:.1f} s, from {100 * case.parameter_share:.2f} % of the gradient"
    unread = unreadable(frame, case)
    if frame.certified and shot.certificate:
        claim, proof = proven(frame, shot.certificate, case)
        seal = f"Certified, as far as the model can read {it(case)}" if unread else "Certified"
        return f"{seal}: {claim}.", f"{told}. {proof}{unread}"
    if shot.nats is not None and shot.nats > 0:
        told += f". The guess makes the noisy gradient {shot.nats:,.1f} nats likelier than the next candidate does"
    elif shot.nats is not None:
        told += f". Another candidate makes the noisy gradient likelier, so this guess is surely not {what(case)}"
    if not frame.scores.exact:
        why = "the budget is spent" if over(frame, case, experiment) else "the attack has no further move"
        words = f"{round(100 * frame.scores.recover_rate)} % of the words were found"
        return f"{recovered(frame, case)}: {why}.", f"{told}; {words}, in their place or elsewhere.{unread}"
    found = f"Recovered, as far as the model can read {it(case)}" if unread else "Recovered"
    if case.secret.dropout:
        why = "Only the client knows its masks, and without them even the truth has another gradient."
        return f"{found}, but not certified: dropout hides the proof.", f"{told}. {why}{unread}"
    return (
        f"{found}, but not certified: the attacker has {what(case)} and cannot be sure of {it(case)}.",
        f"{told}.{unread}",
    )


def in_place(frame: Frame, case: Case) -> str:
    truth = [case.model.inner(ids).tolist() for ids in case.everyone.sentences]
    shot = frame.snapshot
    guess = [case.model.inner(ids).tolist() for ids in case.leak.sentences(shot.ids, shot.lengths)]
    hits = sum(a == b for pair in zip(truth, guess, strict=True) for a, b in zip(*pair, strict=False))
    return f"{hits} of {sum(map(len, truth))} tokens in place"


def what(case: Case) -> str:
    if case.clients > 1:
        return f"all {case.clients} clients' sentences"
    return "the sentences" if case.whose else "the sentence"


def it(case: Case) -> str:
    return "them" if case.whose else "it"


def over(frame: Frame, case: Case, experiment: Experiment) -> bool:
    seconds = experiment.seconds - kept_for_weighing(case.leak, experiment.seconds)
    return frame.snapshot.seconds >= seconds or frame.snapshot.step >= experiment.steps


def recovered(frame: Frame, case: Case) -> str:
    """How many of several sentences came back whole, and whether ours did."""
    whole = sum(one.exact for one in frame.each)
    if not whole:
        return "Not recovered"
    if case.clients == 1:
        return f"{whole} of {len(frame.each)} sentences recovered"
    ours = "yours among them" if frame.own.exact else "but not yours"
    return f"{whole} of {case.clients} clients' sentences recovered, {ours}"


def unreadable(frame: Frame, case: Case) -> str:
    """What a guess with [UNK] in it does not tell; nothing where there is none."""
    unknown = case.model.tokenizer.unk_token_id
    count = int((frame.snapshot.ids == unknown).sum()) if unknown is not None else 0
    if not count:
        return ""
    which = "One token of the guess is" if count == 1 else f"{count} tokens of the guess are"
    return (
        f" {which} {case.model.tokenizer.unk_token}, which stands for any characters that the model cannot read: "
        "nobody can tell from the gradient what they were."
    )


def proven(frame: Frame, certificate: Certificate, case: Case) -> tuple[str, str]:
    """What a certificate proves, and by which figures."""
    secret = case.secret
    residual = f"{certificate.residual:.0e}" if certificate.residual else "0"
    if certificate.proof == "rows":
        return (
            "this sentence accounts for every row of the word table",
            "The word table's rows are exactly the sums of the position rows at the words' places: the relative "
            f"difference of the rows is {residual}.",
        )
    if certificate.proof == "span":
        # Without masks the span was of differences, whose coordinates dropout must have kept on both sides.
        alone = frame.snapshot.kept is not None
        kept = 1 - secret.dropout
        each, keeps = ("Each word", kept) if alone else ("Each difference to the first token", kept**2)
        agrees = f"agrees with a vector of the leaked span on at least {100 * (1 - certificate.residual):.0f} %"
        proof = f"{each} {agrees} of its coordinates; dropout of {secret.dropout:g} keeps {100 * keeps:.0f} %."
        if frame.masks_right is not None:
            right = 100 * float(case.model.inner(frame.masks_right).mean())
            proof += f" Of the words' dropout masks, {right:.1f} % are read right."
        return "every word of this sentence fits the leaked span, as far as dropout lets it", proof
    if certificate.proof == "noise":
        nats = f", and it is {frame.snapshot.nats:.0f} nats likelier than the next" if frame.snapshot.nats else ""
        one = "these sentences leave" if case.whose else "this sentence leaves"
        return (
            f"what {one} over is just the known noise",
            f"It differs from what the noise should leave by {certificate.residual:.1f} standard deviations{nats}.",
        )
    proof = (
        f"The guess's own gradient was computed anew and compared with the leaked one: the {GRADIENTS} is {residual}."
    )
    if frame.snapshot.meaning != GRADIENT:
        proof += " The curve shows another figure, the score by which the attack chose its guesses."
    return f"{these(case)} exactly this gradient", proof


def these(case: Case) -> str:
    if case.clients > 1:
        return f"the sentences of these {case.clients} clients, and no others tried, have"
    return "these sentences, and no others tried, have" if case.whose else "this sentence, and no other tried, has"
