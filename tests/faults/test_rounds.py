"""Seeded rounds of faults against real processes: every promise is checked after every round.

CLAWSITE_FAULT_ROUNDS sets the number of rounds (`make soak` runs hundreds), CLAWSITE_FAULT_SEED the first seed: repeat a failed
round with its seed and one round. By default each database gets a different sample.
"""

import os

import pytest

from tests.faults.checker import find_violations
from tests.faults.rounds import Round
from tests.harness.stack import Stack

pytestmark = pytest.mark.dialect

ROUNDS = int(os.environ.get("CLAWSITE_FAULT_ROUNDS", "8"))
FIRST_SEED = int(os.environ.get("CLAWSITE_FAULT_SEED", "11" if os.environ.get("CLAWSITE_TEST_DATABASE") == "postgres" else "1"))
FAULTY = ("-m", "tests.faults.faulty_process")


@pytest.fixture(scope="module")
def people(django_db_setup, django_db_blocker):
    from django.contrib.auth.models import Group

    from clawsite.accounts.models import User

    with django_db_blocker.unblock():
        made = [User.objects.create(username=f"somebody-{n}") for n in range(3)]
        for user in made:
            user.groups.set(Group.objects.filter(name="User"))
        return made


@pytest.fixture(scope="module")
def faulty(people, django_db_blocker):
    """The installation shared by all rounds: processes that a round killed have been restarted."""
    from clawsite.infra import db
    from sessions_app.models import Lane
    from tests.harness.database import reset_database

    with django_db_blocker.unblock():
        # Small enough to be reached in every round.
        Lane.objects.filter(name="main").update(max_running=4)
        Lane.objects.filter(name="nested").update(max_running=2)
        with Stack(webs=2, workers=2, env={"CLAWSITE_LOG_LEVEL": "warning"}, launcher=FAULTY, own_redis=True) as stack:
            yield stack
        db.close()
        reset_database()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
async def test_round_of_faults_violates_no_invariant(seed, faulty, people, database):
    tokens = {user.pk: faulty.api_token(user) for user in people}
    rows, history = await Round(faulty, tokens, seed).run()
    found = find_violations(rows, history)
    assert len(rows.runs) > 20, "nothing happened, so nothing was tested"
    assert not found, "\n".join([f"seed {seed}", *history.faults, *map(str, found)])
