"""The seed of the random tests: always the same, so that a failure is caused by the change under test.

`make soak` uses other seeds. CLAWSITE_FUZZ_SEED sets one; 0 means a new one each time.
"""

import os
import secrets

SEED = int(os.environ.get("CLAWSITE_FUZZ_SEED", "1")) or secrets.randbits(32)
