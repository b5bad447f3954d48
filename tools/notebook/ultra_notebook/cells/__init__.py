"""A C++ cell: its program, compilation and run."""
