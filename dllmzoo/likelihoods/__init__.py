"""Likelihoods: which views of an answer are scored, and how the scores become log-probs."""
