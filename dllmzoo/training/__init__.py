"""Training: the loop, the run folder, checkpoints and evaluation."""
