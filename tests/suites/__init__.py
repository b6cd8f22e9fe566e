"""Test suites for minigrad in different styles, as users of `pytest --breaks` would write them.

They are run by their path; nothing collects them otherwise.
"""

from importlib.metadata import entry_points

_INSTALLED = {point.value for point in entry_points(group="pytest11")}
PLUGIN = () if "harness.plugin.entry" in _INSTALLED else ("-p", "harness.plugin.entry")
"""The options with which pytest loads the plugin. An environment that was created before the plugin
existed does not load it by itself."""
