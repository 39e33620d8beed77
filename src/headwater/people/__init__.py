"""People with several records: who a record belongs to, and how many of a person's records count."""

from headwater.people.hashing import hash_people
from headwater.people.person import Person

__all__ = ["Person", "hash_people"]
