"""Learning: progress, the track, the self-test, exercises, repairs, hunts, watched files."""
