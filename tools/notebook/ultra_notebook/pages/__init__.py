"""A chapter as an HTML page."""
