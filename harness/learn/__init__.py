"""Learning: progress, the track and what follows it, the self-test, exercises as lessons, hunts."""
