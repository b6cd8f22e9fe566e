"""One module per library, each with a class per problem that it takes part in.

A contestant is made from a problem. `step()` is what is timed, and returns what costs nothing to
return. `computed(step())` is what is compared between contestants: the loss or the output, then the
gradients, as arrays in the order and layout of the problem.

The code is what a user of that library would write, with the library's own loss and optimizer where
it has them. Each module imports its library at the top: where that fails, its rows are skipped.
"""
