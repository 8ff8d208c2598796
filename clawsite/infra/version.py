"""The installed version of Clawsite."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    try:
        return installed("clawsite")
    except PackageNotFoundError:  # running from a checkout without installation
        return "0+checkout"
