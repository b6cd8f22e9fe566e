"""HTML files: breaks to predict and to step through, and reports.

`lesson` collects what a page shows, `graph` turns two recorded walks into pictures step by step,
`charts` and `tiles` draw arrays and losses, and `document` fills the templates. A file loads
nothing from elsewhere, and shows its pictures without JavaScript, too.
"""
