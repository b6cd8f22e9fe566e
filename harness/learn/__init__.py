"""Learning: progress, the track, the self-test, exercises as lessons, repairs, watched files."""
