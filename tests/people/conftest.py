"""The fixtures of services."""

from tests.service.conftest import opened as opened
