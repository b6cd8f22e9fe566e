"""The forward and backward rules of the ops."""
