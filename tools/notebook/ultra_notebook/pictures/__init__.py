"""Pictures: their files, what they show, and small SVG."""
