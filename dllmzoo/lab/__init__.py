"""Experiments over many runs: sweeps, comparisons, and the laboratories of estimators."""
