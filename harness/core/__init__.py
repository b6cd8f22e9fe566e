"""What every room shares: the vocabulary, the errors, and the records that travel the road."""
