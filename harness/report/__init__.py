"""Reports in every format: terminal, JSON, Markdown, JUnit."""
