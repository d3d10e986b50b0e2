"""What both parties know: the model, and what a training step makes of it.

keeping          what is kept for the next run, and what is let go
hub              where pretrained files come from
gguf_file        llama.cpp's kind of file, unpacked
packages         models that come inside packages: fetched once, and kept on disk
anatomy          what an attack may ask of any family: a stack of which any part can be run
rough            the same network in bfloat16, for searches
bert             the first family
encoder_decoder  TAG's Transformer, which reads the sentence again
weights          the numbers of a network, drawn
settled          a decoder's prefix whose keys and values are kept
causal           what decoders share: layers that look back only, and keep what is settled
gpt2             learned positions, and the word table as output matrix
llama            turned places, gates, shared keys; and its kin
spelling         how tokens are written, and which may be guessed
model            a network with its tokenizer
shapes           the table of models
models           a model of the table with its numbers: loaded, fetched or drawn
slices           which pieces of the gradient are exposed
gradients        the step that both can take, and what anyone may know of a defense
"""
