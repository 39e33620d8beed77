from tests.audit.toy.model import MEASURED, MODEL

__all__ = ["MEASURED", "MODEL"]
