"""Right of the wall: nothing here has seen data, and nothing here can import what has."""
