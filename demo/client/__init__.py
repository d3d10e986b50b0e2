"""What only the client does.

defenses  what is done to a gradient before it is shared
secret    sentences, labels, and what dropout drew
share     the door in the wall: a Secret -> a Leak
"""
