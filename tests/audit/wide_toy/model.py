from tests.audit.toy.model import MODEL

__all__ = ["MODEL"]
