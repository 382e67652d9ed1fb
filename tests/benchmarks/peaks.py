"""Peak memory of one call from the allocator's own record; of small work on the CPU only."""

from torch.profiler import ProfilerActivity, profile


def peak(run):
    """MiB that the call holds at most on top of what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    held, most = 0, 0
    events = seen.profiler.kineto_results.events()
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most / 2**20
