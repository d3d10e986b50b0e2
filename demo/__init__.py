"""Leakscope: watch a gradient give away its sentence.

The rooms, in reading order; each imports only what stands above it, and each `__init__.py` lists its files in theirs:

    machine     what the C libraries below torch have to be told: heaps, threads, what is kept
    turns       long computations, watched, timed and stopped from outside
    settings    fields that people may change
    victim/     what both parties know: the models, their parts, and their gradients
    attacker/   what only the attacker does; it sees a `Leak` and nothing else
    client/     what only the client does: its secret, its defenses, and the door in the wall
    runs/       experiments from start to end: where truth meets guess
    screen/     what the page is told of them
    bench/      the same engine without a screen
    ui/         the page
    benchmark   python -m demo.benchmark
    recordings  python -m demo.recordings

The wall: nothing under attacker/ imports client/ or runs/.

The first hour, from a sentence to a certificate:

- runs/engine.py: an experiment goes in, frames come out; everything else happens on the way
- victim/model.py: a sentence as ids, and back
- victim/bert.py: the network, stage by stage
- victim/slices.py: which of its parameters are exposed
- victim/gradients.py: the training step
- client/secret.py: what only the client knows
- client/share.py: a secret goes in, a leak comes out
- attacker/leak.py: all that the attacker sees
- attacker/attacks/span.py: the shortest attack that works
- attacker/certificate.py: the proof
"""
