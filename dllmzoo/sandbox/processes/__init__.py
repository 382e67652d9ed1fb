"""Programs of the sandbox, run by Python processes of their own; the standard library only.

`worker` runs outside and starts the others. `judge` runs the tests, `program` the answer, each in a
sandbox of its own. The folder is copied to where every user can read it, and imported from there.
"""
