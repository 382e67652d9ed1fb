"""Losses: log-probs and advantages in, the scalar to minimise out."""
