"""The lab as one HTML file: pages to predict, two graphs to step through, and reports.

`lesson` collects what a page shows, `scene` turns two recorded walks into steps, `layout` and
`drawing` make the pictures, and `document` fills the templates. Nothing in the file is loaded from
elsewhere, and the pictures are in it without JavaScript, too.
"""
