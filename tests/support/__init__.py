"""Tools that several tests share."""
