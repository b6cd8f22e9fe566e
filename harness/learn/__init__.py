"""A learner's way: progress, the track and what follows, the self-test, exercises as lessons."""
