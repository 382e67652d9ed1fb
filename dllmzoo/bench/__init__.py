"""End-to-end benchmarks: each way of doing a thing in a process of its own, in turns."""
