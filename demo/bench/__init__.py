"""The same engine without a screen.

sentences       files of sentences to attack
rows            experiments run to their ends, as rows
calibration     how often words that an attack is sure of are right
paper_tables    the papers' tables beside our figures
defense_tables  what each defense is worth
speed           plain autograd against the matcher
documents       the tables in the document of results
server          the app in a process of its own
stream          what it costs to watch
our_claims      what the README claims, as experiments
options         the command line
benchmark       the commands
"""
