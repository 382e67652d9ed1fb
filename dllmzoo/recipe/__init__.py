"""Recipes: YAML in, checked objects out; every problem is reported at once with its place."""
