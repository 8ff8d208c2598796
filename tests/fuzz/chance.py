"""Where the random tests begin: always at the same place, so that a red run speaks of the change it ran on. `make soak` does not.

CLAWSITE_FUZZ_SEED names another place, 0 a new one each time.
"""

import os
import secrets

SEED = int(os.environ.get("CLAWSITE_FUZZ_SEED", "1")) or secrets.randbits(32)
