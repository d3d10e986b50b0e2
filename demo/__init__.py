"""Leakscope: watch a gradient give away its sentence.

In reading order, each importing only what stands above it:

    machine     what the C libraries below torch have to be told: heaps, threads, what is kept
    turns       long computations, watched, timed and stopped from outside
    algebra     linear algebra that does not break off
    hub         where pretrained files come from
    keeping     what is kept for the next run, and what is let go
    network     BERT as a stack of which any part can be run
    weights     the numbers of one: read from a file, or drawn
    models      the victims and where their weights come from
    settings    fields that people may change
    slices      which pieces of the gradient are exposed
    defenses    what the client does to its gradient before it shares it
    leak        what each party knows; the certificate
    lens        what a token becomes inside the network, guessed from the token alone
    asking      a decoder's last token, and what it gathers of the others
    subspace    an exposed matrix as the span of its layer's inputs
    matching    how far dummies are from the leak, without building their gradients
    evidence    how likely a guess makes the leak, under known noise
    judges      how far whole guesses are from the leak, and which words would fit
    sieve       the same question to the whole vocabulary, where one vector is all that is known
    readout     how far a guess is from that one vector
    decoder     how far a guess is from what a decoder gathers
    attacks/    one file an attack idea; the table ATTACKS
    metrics     truth meets guess
    engine      Experiment -> Frames: the one generator that feeds everything
    surveys     several experiments as one question
    sentences   files of sentences to attack
    measuring   experiments run to their ends, as rows
    calibration how often words that an attack is sure of are right
    tables      the papers' tables beside our figures
    studies     what each defense is worth
    projection  word vectors in three dimensions
    verdicts    how a run ended, in words
    messages    frames as the screen is told of them
    reports     surveys as the screen is told of them
    lessons     guided walks through recordings, and the glossary
    comparisons two experiments on one clock, and who was first
    ui/         the page
    recordings  runs to play without computing: python -m demo.recordings
    speed       plain autograd against the matcher
    serving     the app in a process of its own
    stream      what it costs to watch
    claims      what the README claims, as experiments
    options     the benchmark's command line
    benchmark   the same engine without a screen: python -m demo.benchmark

The wall: nothing under attacks/ imports `Secret` or `metrics`.
"""
