"""What every side of the wire shares: channels, tensors, chunks, tickets, tokens, errors, the notation, commands."""
