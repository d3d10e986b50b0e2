"""What both parties know: the model, and what a training step makes of it.

keeping    what is kept for the next run, and what is let go
hub        where pretrained files come from
anatomy    what an attack may ask of any family: a stack of which any part can be run
bert       the first family
encoder_decoder  TAG's Transformer, which reads the sentence again
weights    the numbers of one, drawn
models     the table of victims, and where their weights come from
slices     which pieces of the gradient are exposed
gradients  the step that both can take, and what anyone may know of a defense
"""
