"""What only the attacker does. It imports the victim, never the client.

leak         all that it sees
certificate  the proof that a guess is the sentence
algebra      linear algebra that does not break off
lens         what a token becomes inside the network, guessed from the token alone
asking       a decoder's last token, and what it gathers of the others
subspace     an exposed matrix as the span of its layer's inputs
prefix_views  which matrices of a decoder tell its words, and which words occur
prefixes     a decoder's words, each checked by itself after those before it
proposals    which words to check next
turned_order  how a query or key matrix of layer 0 tells the order of its words
matching     how far dummies are from the leak, without building their gradients
evidence     how likely a guess makes the leak, under known noise
last_word    a decoder's last word, which is only a target
judges       how far whole guesses are from the leak, and which words would fit
vocabulary   the same question to the whole vocabulary, where one vector is all that is known
readout      how far a guess is from that one vector
decoder      how far a guess is from what a decoder gathers
attacks      one file an attack idea; the table ATTACKS
"""
