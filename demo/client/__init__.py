"""What only the client does.

defenses  what is done to a gradient before it is shared
secret    sentences, labels, and what dropout drew
client    how it trains, as fields that people may change
share     the door in the wall: a Secret -> a Leak
"""
