from tests.checks.toy.model import MODEL

__all__ = ["MODEL"]
