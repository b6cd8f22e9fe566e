"""An engine tried unbroken: how it is built, what is wrong with it, which breaks apply."""
