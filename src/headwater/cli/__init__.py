"""The command line: parse, call the library, draw. Nothing is decided here that the library does not decide."""
