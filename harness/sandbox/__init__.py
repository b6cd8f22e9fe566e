"""Child processes that can do no harm: start, limit, confine, exchange frames of bytes, end.

It knows neither engines nor probes: a child calls a function that it is given, and what the frames
mean is up to the caller.
"""
