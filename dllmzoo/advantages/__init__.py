"""Advantages: rewards in, credit of each answer or denoising step out."""
