"""The bundled stream: real flights, in the public domain."""
