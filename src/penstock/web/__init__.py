"""HTTP faces of the systems, on Starlette: what they share (faces, guard, problems), and a file for each system."""
