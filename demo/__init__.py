"""Leakscope: watch a gradient give away its sentence.

In reading order, each importing only what stands above it:

    models      the victims and where their weights come from
    slices      which pieces of the gradient are exposed
    leak        what each party knows; the certificate
    subspace    an exposed matrix as the span of its layer's inputs
    matching    how far dummies are from the leak, without building their gradients
    judges      how far whole guesses are from the leak, and which words would fit
    attacks/    one file an attack idea; the table ATTACKS
    metrics     truth meets guess
    engine      Experiment -> Frames: the one generator that feeds everything
    sentences   files of sentences to attack
    benchmark   the same engine without a screen: python -m demo.benchmark

The wall: nothing under attacks/ imports `Secret` or `metrics`.
"""
