"""Tasks: data, prompts, rewards and metrics."""
