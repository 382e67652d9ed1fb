"""Model families: each reads and writes the public checkpoint format of its family."""
