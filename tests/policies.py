"""The policy for a test that changes it: as a new installation has it, and as it was afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

from tools_app import policies
from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy


@contextmanager
def policy_restored() -> Iterator[int]:
    """-> the number of the version it begins with. Rows, tests and versions that come within are gone behind it."""
    rows = [row.to_json() for row in policies.current_rules().rows]
    first = policies.current_rules().version
    try:
        yield first
    finally:
        PolicyTest.objects.all().delete()
        ToolPolicy.objects.all().delete()
        ToolPolicy.objects.bulk_create([ToolPolicy(**row) for row in rows])
        PolicyVersion.objects.filter(number__gt=first).delete()
