"""Left of the wall: everything here has seen people's data."""
