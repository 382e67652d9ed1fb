"""Selectors: which denoising steps of a rollout are trained on."""
