"""Which release this is."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    try:
        return installed("clawsite")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+checkout"
