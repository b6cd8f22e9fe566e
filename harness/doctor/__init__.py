"""An engine without a break: how it is built, which bugs it has, which breaks apply."""
