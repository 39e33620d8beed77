"""Algorithms 1 to 4 of He, Vershynin and Zhu, with the law of the literal algorithm and none of its cost."""
