"""What must be true of a policy before a round is worth its time: proven on the loaded network."""

from dllmzoo.training.preflight._checks import at_start, preflight
from dllmzoo.training.preflight._verdict import Outcome, Verdict

__all__ = ["Outcome", "Verdict", "at_start", "preflight"]
