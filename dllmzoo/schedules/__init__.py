"""Noise schedules: how likely a token is masked at time t, and how many are committed when."""
