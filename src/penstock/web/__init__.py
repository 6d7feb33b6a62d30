"""HTTP faces of the systems, on Starlette: what they share (faces, guard, shapes), and a file for each system."""
