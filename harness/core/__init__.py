"""What all other packages share: the vocabulary, the errors and the records that they exchange."""
