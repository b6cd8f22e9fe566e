"""HTML files: breaks to predict and to step through, and reports.

`lesson` collects what a page shows, `scene` turns two recorded walks into steps, `layout` and
`drawing` make the pictures, and `document` fills the templates. A file loads nothing from
elsewhere, and shows its pictures without JavaScript, too.
"""
