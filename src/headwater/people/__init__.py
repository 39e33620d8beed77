"""People with several records: who a record belongs to, and how many of a person's records count.

Any process that has the run's key for people can hash them (`hash_people`) and encode rows with their hashes
(`headwater.Synthesizer.encode`). Which of them count is decided by the owner of the run alone, in order of arrival.
"""

from headwater.people.hashing import hash_people
from headwater.people.person import Person

__all__ = ["Person", "hash_people"]
