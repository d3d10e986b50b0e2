"""What the page is told.

projection        word vectors in three dimensions
verdicts          how a run ended, in words
growth            the tree of prefixes that a search on a decoder walks
messages          frames as the screen is told of them
reports           surveys as the screen is told of them
comparisons       two experiments on one clock, and who was first
lessons           guided walks through recordings, and the glossary
recording_format  what a recording holds, for Python and for the browser
recordings        runs to play without computing
"""
