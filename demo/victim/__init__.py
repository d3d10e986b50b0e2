"""What both parties know: the model, and what a training step makes of it.

keeping          what is kept for the next run, and what is let go
hub              where pretrained files come from
anatomy          what an attack may ask of any family: a stack of which any part can be run
rough            the same network in bfloat16, for searches
bert             the first family
encoder_decoder  TAG's Transformer, which reads the sentence again
weights          the numbers of a network, drawn
model            a network with its tokenizer
models           the table of victims and families, and where their weights come from
slices           which pieces of the gradient are exposed
gradients        the step that both can take, and what anyone may know of a defense
"""
