"""Experiments from start to end.

metrics  truth meets guess
engine   Experiment -> Frames: the one generator that feeds everything
surveys  several experiments as one question
"""
